package cron

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// hashed matches an H with an optional range and an optional step.
var hashed = regexp.MustCompile(`H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?`)

// replaceHashes replaces each H by values derived from luck, a number in [0, 1). All H of a field share one
// luck, so they fall on the same relative position of their ranges.
func (f *field) replaceHashes(text string, luck float64) (string, *flaw) {
	if !strings.Contains(text, "H") {
		return text, nil
	}
	var wrong *flaw
	text = hashed.ReplaceAllStringFunc(text, func(match string) string {
		found := hashed.FindStringSubmatch(match)
		values, why := f.drawn(found[1], found[2], found[3], luck)
		if why != nil && wrong == nil {
			wrong = why
		}
		return values
	})
	return text, wrong
}

// drawn returns the value for an H as text, or the list of values if it has a step.
func (f *field) drawn(from, to, every string, luck float64) (string, *flaw) {
	first, last := float64(f.min), float64(f.max)
	if from != "" {
		low, _ := leadingNumber(from)
		high, _ := leadingNumber(to)
		first, last = max(first, low), min(last, high)
		if low > high || first > last {
			return "", flawf(fmt.Sprintf("use a range within %d-%d", f.min, f.max), "H(%s-%s) has no value", from, to)
		}
	}
	if every == "" {
		return onSpot(first, last, luck), nil
	}
	step, _ := leadingNumber(every)
	if step == 0 {
		return "", flawf("use a number from 1 after the slash", "%q is not a step", every)
	}
	// Steps count from 0, not from the start of the range. luck shifts all of them by less than one step.
	var values []string
	for n := math.Floor(first/step)*step + math.Floor(luck*step); n <= last; n += step {
		if n >= first {
			values = append(values, strconv.Itoa(int(n)))
		}
	}
	if len(values) == 0 {
		return onSpot(first, last, luck), nil
	}
	return strings.Join(values, ","), nil
}

func onSpot(first, last, luck float64) string {
	return strconv.Itoa(int(math.Floor(luck*(last-first+1)) + first))
}

// lottery is the random generator of a seed: Mulberry32, seeded with FNV-1a over the seed's UTF-16 code
// units.
type lottery struct{ state uint32 }

func newLottery(seed string) *lottery {
	state := uint32(2166136261)
	for _, unit := range utf16.Encode([]rune(seed)) {
		state = (state ^ uint32(unit)) * 16777619
	}
	return &lottery{state}
}

// draw returns a number in [0, 1).
func (l *lottery) draw() float64 {
	l.state += 0x6d2b79f5
	t := l.state
	t = (t ^ t>>15) * (t | 1)
	t ^= t + (t^t>>7)*(t|61)
	return float64(t^t>>14) / (1 << 32)
}
