package parity

import (
	"math"
	"strconv"
	"time"
)

// Present identifies numbers that are times of the current run. The two drivers read a running clock at
// different moments, so two such times are equal if they are close. A time far from the present was read from
// a stopped clock and must match exactly, like any other number.
type Present struct {
	Run   Window        // from the start of the scenario until now
	Slack time.Duration // allowed difference between two times of the present
}

// nearby is the distance from the run within which a time counts as present. An hour allows for delays
// counted from now.
const nearby = time.Hour

// scoreScale is the factor between the scores of delayed jobs and times in milliseconds.
const scoreScale = 4096

// isPresent reports whether a number is a time of the present in milliseconds.
func (p Present) isPresent(ms float64) bool {
	return ms >= float64(p.Run.From.Add(-nearby).UnixMilli()) && ms <= float64(p.Run.To.Add(nearby).UnixMilli())
}

func (p Present) sameNumber(a, b float64) bool {
	if a == b {
		return true
	}
	return p.isPresent(a) && p.isPresent(b) && math.Abs(a-b) <= float64(p.Slack.Milliseconds())
}

// sameScore is like sameNumber for scores, which may be scaled times.
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

// sameText compares texts, which may be decimal times.
func (p Present) sameText(a, b string) bool {
	if a == b {
		return true
	}
	first, err1 := strconv.ParseFloat(a, 64)
	second, err2 := strconv.ParseFloat(b, 64)
	// Only times may differ in their digits: 1 and 1.0 are different texts.
	return err1 == nil && err2 == nil && p.isPresent(first) && p.sameNumber(first, second)
}
