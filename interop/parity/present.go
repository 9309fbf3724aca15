package parity

import (
	"math"
	"strconv"
	"time"
)

// Present says which numbers are times of this run. Where the clock runs, the two sides read it at
// different moments, so that two such times are alike when they are close. A time far from the present
// was read from a stopped clock and must agree exactly, as any other number.
type Present struct {
	Run   Window        // from the scenario's start until now
	Slack time.Duration // how far apart two times of the present may be
}

// nearby is how far from the run's own minutes a time may lie and still be of the present: an hour
// allows for delays that are counted from now.
const nearby = time.Hour

// scoreScale is the factor by which scores of delayed jobs are times in milliseconds.
const scoreScale = 4096

// isPresent reports whether a number is a time of the present, in milliseconds.
func (p Present) isPresent(ms float64) bool {
	return ms >= float64(p.Run.From.Add(-nearby).UnixMilli()) && ms <= float64(p.Run.To.Add(nearby).UnixMilli())
}

func (p Present) sameNumber(a, b float64) bool {
	if a == b {
		return true
	}
	return p.isPresent(a) && p.isPresent(b) && math.Abs(a-b) <= float64(p.Slack.Milliseconds())
}

// sameScore is sameNumber for scores, which may be scaled times.
func (p Present) sameScore(a, b float64) bool {
	if p.sameNumber(a, b) {
		return true
	}
	first, second := math.Floor(a/scoreScale), math.Floor(b/scoreScale)
	return p.isPresent(first) && p.sameNumber(first, second)
}

func (p Present) isPresentScore(score float64) bool {
	return p.isPresent(score) || p.isPresent(math.Floor(score/scoreScale))
}

// sameText compares texts, of which both may be times in decimals.
func (p Present) sameText(a, b string) bool {
	if a == b {
		return true
	}
	first, err1 := strconv.ParseFloat(a, 64)
	second, err2 := strconv.ParseFloat(b, 64)
	// Only times may differ in their digits: 1 and 1.0 are different texts.
	return err1 == nil && err2 == nil && p.isPresent(first) && p.sameNumber(first, second)
}
