package cron

import (
	"testing"
	"time"
)

// FuzzNextRun evaluates any pattern, zone and dates. A run that is found must not be in the past, the run
// after it must be later, and both searches must be fast.
func FuzzNextRun(f *testing.F) {
	const now = 1700000000000
	for _, pattern := range []string{"* * * * *", "*/5 0-3,7 1 JAN-MAR MON#2", "0 0 31 2 *", "0 0 29 2 5L", "H H(0-5) * * *", "@yearly", "59 59 23 L 12 ?", "0 0 0 1,L-3W * 7", ",,,", "1/0 * * * *", "99999999999999999999 * * * *"} {
		f.Add(pattern, "Europe/Rome", "seed", int64(now), int64(0), int64(0), int64(0))
	}
	f.Add("30 2 * * *", "America/Sao_Paulo", "", int64(-1<<62), int64(1<<62), int64(-1<<62), int64(1<<62))
	f.Fuzz(func(t *testing.T, pattern, zone, seed string, now, start, end, prev int64) {
		begun := time.Now()
		plan := Plan{Pattern: pattern, TimeZone: zone, HashSeed: seed, StartDate: start, EndDate: end, PrevMillis: prev}
		next, err := plan.NextRun(now)
		if err == nil && (next < now || next < prev) {
			t.Fatalf("the run after %d, and after %d, is at %d", now, prev, next)
		}
		if err == nil {
			plan.PrevMillis = next
			if after, err := plan.NextRun(next); err == nil && after < next {
				t.Fatalf("the run after %d is at %d", next, after)
			}
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Fatalf("two searches took %v", took)
		}
	})
}
