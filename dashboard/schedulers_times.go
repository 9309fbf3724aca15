package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/cron"
	"github.com/17a2ac88/bullmq-go/internal/cronwords"
)

// storedRepeat is the part of a job's option repeat that decides about the runs after it. The
// record of a scheduler lacks it.
type storedRepeat struct {
	Repeat struct {
		Count    json.Number `json:"count"`
		Limit    json.Number `json:"limit"`
		HashSeed string      `json:"hashSeed"`
	} `json:"repeat"`
}

// upcoming returns the times of the next runs, given the options of the next job, which may be
// nil. Each run adds the following one when it starts, so these are the times of runs that start
// when they are due. It reports whether the scheduler ends after them.
func upcoming(s *bullmq.Scheduler, nextJob json.RawMessage, now time.Time, n int) (times []time.Time, ends bool) {
	if s.Next.IsZero() {
		return nil, true
	}
	var stored storedRepeat
	_ = json.Unmarshal(nextJob, &stored) // without them, the limit is counted from the start
	count, err := stored.Repeat.Count.Int64()
	if err != nil {
		count = int64(s.Iterations)
	}
	due := s.Next
	times = append(times, due)
	for len(times) < n {
		at := maxTime(due, now) // when it starts
		count++
		if s.Repeat.Limit > 0 && count > int64(s.Repeat.Limit) || !s.Repeat.EndDate.IsZero() && at.After(s.Repeat.EndDate) {
			return times, true
		}
		next, ok := following(s, stored.Repeat.HashSeed, due, at)
		if !ok || !next.After(due) {
			return times, true
		}
		due = next
		times = append(times, due)
	}
	return times, false
}

// following returns the run after one that was due at a time, and starts at another.
func following(s *bullmq.Scheduler, seed string, due, start time.Time) (time.Time, bool) {
	if s.Repeat.Pattern == "" {
		every := float64(s.Repeat.Every) / float64(time.Millisecond)
		if every < 1 {
			return time.Time{}, false
		}
		next, now := float64(due.UnixMilli())+every, float64(start.UnixMilli())
		if next < now {
			next = math.Floor(now/every)*every + float64(s.Repeat.Offset.Milliseconds())
			if next <= now {
				next += every
			}
		}
		return time.UnixMilli(int64(math.Floor(next))), true
	}
	ms, err := cron.Plan{
		Pattern: s.Repeat.Pattern, TimeZone: s.Repeat.TimeZone, HashSeed: seed, PrevMillis: due.UnixMilli(),
		StartDate: millis(s.Repeat.StartDate), EndDate: millis(s.Repeat.EndDate),
	}.NextRun(start.UnixMilli())
	return time.UnixMilli(ms), err == nil
}

// previous returns the times of the runs before the next one, the newest first.
func previous(s *bullmq.Scheduler, n int) (times []time.Time) {
	due := s.Next
	if due.IsZero() {
		return nil
	}
	if s.Repeat.Pattern == "" {
		if every := s.Repeat.Every; every >= time.Millisecond {
			for range n {
				due = due.Add(-every)
				times = append(times, due)
			}
		}
		return times
	}
	schedule, err := cron.Parse(s.Repeat.Pattern)
	if err != nil {
		return nil
	}
	zone, err := cron.LoadZone(s.Repeat.TimeZone)
	if err != nil {
		return nil
	}
	for range n {
		before, ok := schedule.Prev(due, zone)
		if !ok || !before.Before(due) {
			break
		}
		due = before
		times = append(times, due)
	}
	return times
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// repeatWords says when a scheduler adds jobs.
func repeatWords(s *bullmq.Scheduler) string {
	var text strings.Builder
	switch r := s.Repeat; {
	case r.Pattern != "":
		words, err := cronwords.Describe(r.Pattern)
		if err != nil {
			words = "a pattern that can’t be read"
		}
		text.WriteString(words)
		if r.TimeZone != "" {
			text.WriteString(", " + cut(r.TimeZone, 60) + " time")
		}
	case r.Every > 0:
		text.WriteString("every " + interval(r.Every))
		if r.Offset > 0 && r.Offset < r.Every && r.Offset%time.Second == 0 { // others come from the time of the first run
			fmt.Fprintf(&text, ", shifted by %s", length(r.Offset))
		}
	default:
		text.WriteString("neither a pattern nor an interval")
	}
	if r := s.Repeat; r.Limit > 0 {
		fmt.Fprintf(&text, ", at most %s", number(r.Limit, "time"))
	}
	return text.String()
}

// repeatNotes says what else a reader should know of the times of a scheduler.
func repeatNotes(s *bullmq.Scheduler) (notes []string) {
	if s.Repeat.Pattern == "" {
		return nil
	}
	if _, err := cron.Parse(s.Repeat.Pattern); err != nil {
		return []string{cut(err.Error(), 500)}
	}
	if s.Repeat.TimeZone == "" {
		notes = append(notes, "The pattern has no time zone, so that each worker uses its own. The times here are those of "+time.Now().Format("MST")+", the zone of the dashboard.")
	} else if _, err := cron.LoadZone(s.Repeat.TimeZone); err != nil {
		notes = append(notes, cut(err.Error(), 500))
	}
	for _, drawn := range cron.Drawn(s.Repeat.Pattern) {
		if drawn {
			notes = append(notes, "H in the pattern stands for a value that is drawn for each run. Only the next run is certain.")
			break
		}
	}
	return notes
}

// interval returns a duration in words behind every, such as hour or 90 minutes.
func interval(d time.Duration) string { return strings.TrimPrefix(length(d), "1 ") }

// length returns a duration in words, in the largest unit that divides it.
func length(d time.Duration) string {
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}, {"millisecond", time.Millisecond}} {
		if d%unit.length == 0 {
			return number(int(d/unit.length), unit.name)
		}
	}
	return fmt.Sprintf("%v milliseconds", float64(d)/float64(time.Millisecond))
}
