package cron_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

// peculiarZones change their clocks in unusual ways: by half an hour or two hours, at midnight, around
// Ramadan, across the date line, or with an offset of three quarters of an hour.
var peculiarZones = []string{
	"Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Caracas", "America/Godthab", "America/Havana",
	"America/Santiago", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns", "Antarctica/Casey",
	"Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tehran",
	"Atlantic/Azores", "Australia/Lord_Howe", "Europe/Dublin", "Pacific/Apia", "Pacific/Chatham", "Pacific/Easter",
	"Pacific/Enderbury", "Pacific/Fakaofo", "Pacific/Kiritimati", "Pacific/Kwajalein", "Pacific/Norfolk",
}

// commonZones are the zones that most schedules use.
var commonZones = []string{"UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Kolkata",
	"Australia/Sydney"}

// skippedDays are the clock changes that skipped a day.
var skippedDays = []place{
	{"Pacific/Apia", time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)},
	{"Pacific/Fakaofo", time.Date(2011, 12, 30, 11, 0, 0, 0, time.UTC)},
	{"Pacific/Kwajalein", time.Date(1993, 8, 21, 12, 0, 0, 0, time.UTC)},
	{"Pacific/Kiritimati", time.Date(1994, 12, 31, 10, 0, 0, 0, time.UTC)},
	{"Pacific/Enderbury", time.Date(1994, 12, 31, 11, 0, 0, 0, time.UTC)},
}

// place is a zone and an instant, mostly one at which the zone's clocks change.
type place struct {
	zone string
	at   time.Time
}

// generator draws random questions. It draws few places and many questions for each, because finding offsets
// is slow in luxon and the reference caches them.
type generator struct {
	*rand.Rand
	places []place
}

func newGenerator(seed uint64, zones []string) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	g.places = slices.Clone(skippedDays)
	for range 50 {
		g.places = append(g.places, g.change(pick(g, peculiarZones)))
	}
	for range 20 {
		g.places = append(g.places, g.change(pick(g, commonZones)))
	}
	for range 30 {
		g.places = append(g.places, g.change(pick(g, zones)))
	}
	return g
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// chance returns true with a probability of percent/100.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// change draws a clock change of the zone. Since 1970 all sources agree on them.
func (g *generator) change(zone string) place {
	at := time.Date(1972+g.IntN(100), 1, 1+g.IntN(365), 0, 0, 0, 0, time.UTC)
	location, err := cron.LoadZone(zone)
	if err != nil {
		return place{zone, at}
	}
	start, end := at.In(location).ZoneBounds()
	switch {
	case !end.IsZero():
		at = end
	case start.Year() >= 1972:
		at = start
	}
	return place{zone, at.UTC()}
}

// near draws an instant close to a change.
func (g *generator) near(at time.Time) int64 {
	const minute, hour = 60 * 1000, 60 * 60 * 1000
	around := func(reach int64) int64 { return g.Int64N(2*reach+1) - reach }
	millis := at.UnixMilli()
	switch n := g.IntN(100); {
	case n < 50:
		return millis + around(36*4)*15*minute
	case n < 70:
		return millis + around(3*60)*minute
	case n < 80:
		return millis + pick(g, []int64{-hour, -1000, -1, 0, 1, 1000, hour})
	case n < 90:
		return millis + around(36*hour)
	case n < 99:
		return millis + around(40*24*hour)
	default:
		return millis + g.Int64N(200_000*365)*24*hour // some are far from now
	}
}

// run draws a question about the next or previous run.
func (g *generator) run() question {
	where := pick(g, g.places)
	q := question{Do: "next", TZ: where.zone, From: g.near(where.at), Pattern: g.pattern(where)}
	if g.chance(40) {
		q.Do = "prev"
	}
	if strings.Contains(q.Pattern, "H") {
		q.HashSeed = strconv.Itoa(1 + g.IntN(1000))
	}
	return q
}

// upsert draws a question about the next run of a job scheduler.
func (g *generator) upsert() question {
	where := pick(g, g.places)
	options := map[string]any{"pattern": g.pattern(where), "hashSeed": "seed"}
	if g.chance(90) {
		options["tz"] = where.zone
	}
	if g.chance(30) {
		options["startDate"] = g.near(where.at)
	}
	if g.chance(30) {
		options["endDate"] = g.near(where.at)
	}
	if g.chance(10) {
		options["immediately"] = true
	}
	q := question{Do: "upsert", Options: options, Now: g.near(where.at)}
	if g.chance(50) {
		q.PrevMillis = g.near(where.at)
	}
	return q
}

// pattern draws a pattern with runs close to a place.
func (g *generator) pattern(where place) string {
	if g.chance(1) {
		return pick(g, []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@hourly", "@minutely", "@secondly",
			"@weekdays", "@weekends"})
	}
	local := where.at
	if zone, err := cron.LoadZone(where.zone); err == nil {
		local = local.Add(-time.Second).In(zone)
	}
	nearby := func(n, low, high int) int {
		if g.chance(60) {
			n += g.IntN(4) - 1
			return low + (n-low+high-low+1)%(high-low+1)
		}
		return low + g.IntN(high-low+1)
	}
	anyOf := func(high int) func() int { return func() int { return g.IntN(high + 1) } }
	fields := []string{
		g.field(20, 59, anyOf(59)),
		g.field(35, 23, func() int { return nearby(local.Hour(), 0, 23) }),
		"*", "*", "*",
	}
	if g.chance(25) {
		date := func() int { return nearby(local.Day(), 1, 31) }
		fields[2] = pick(g, []string{"L", "?", strconv.Itoa(date()), g.field(20, 31, date)})
	}
	if g.chance(8) {
		fields[3] = g.field(20, 12, func() int { return nearby(int(local.Month()), 1, 12) })
		if g.chance(20) {
			fields[3] = pick(g, []string{"jan", "MAR,Apr", "oct-nov", "sep-DEC/2"})
		}
	}
	if g.chance(20) {
		weekday := func() int { return g.IntN(8) }
		fields[4] = pick(g, []string{"?", g.field(0, 7, weekday), fmt.Sprintf("%dL", weekday()),
			fmt.Sprintf("%d#%d", weekday(), 1+g.IntN(5)), "mon-fri", "SUN", "0-6"})
	}
	if g.chance(35) {
		fields = append([]string{g.field(20, 59, anyOf(59))}, fields...)
	}
	return strings.Join(fields, " ")
}

// field draws a field that is a wildcard with the given probability in percent.
func (g *generator) field(wildcard, high int, value func() int) string {
	if g.chance(wildcard) {
		return "*"
	}
	low, upper := value(), value()
	if low > upper {
		low, upper = upper, low
	}
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		return strconv.Itoa(low)
	case 4:
		return fmt.Sprintf("%d-%d", low, upper)
	case 5:
		return fmt.Sprintf("%d-%d/%d", low, upper, 1+g.IntN(5))
	case 6:
		return fmt.Sprintf("*/%d", 1+g.IntN(high))
	case 7:
		return fmt.Sprintf("%d/%d", low, 1+g.IntN(high))
	case 8:
		return pick(g, []string{"H", fmt.Sprintf("H/%d", 1+g.IntN(high)), fmt.Sprintf("H(%d-%d)", low, upper),
			fmt.Sprintf("H(%d-%d)/%d", low, upper, 1+g.IntN(9))})
	default:
		return fmt.Sprintf("%d,%d", low, upper)
	}
}

// oddTokens are the parts of nonsensical patterns. There is no full stop, because numbers with a fraction are
// a known difference.
var oddTokens = []string{"*", "?", ",", "-", "/", "#", "L", "H", "H/5", "H(1-9)", "H(0-3)/2", "0", "1", "2", "5", "7", "07", "12", "31",
	"59", "60", "100", "jan", "FEB", "Jul", "mon", "sun", "Fri", "x", "e1", "0x1", "W", "@", "+", "1-5", "*/2", "5L", "1#2", "3,4"}

// oddPattern draws a pattern that is most likely invalid.
func (g *generator) oddPattern() question {
	fields := []string{"*", "*", "*", "*", "*"}
	if g.chance(40) {
		fields = append(fields, "*")
	}
	for range 1 + g.IntN(2) {
		var odd strings.Builder
		for range 1 + g.IntN(4) {
			odd.WriteString(pick(g, oddTokens))
		}
		fields[g.IntN(len(fields))] = odd.String()
	}
	if g.chance(5) {
		fields = fields[:1+g.IntN(len(fields))]
	}
	if g.chance(2) {
		fields = append(fields, "*", "*")
	}
	space := pick(g, []string{" ", " ", " ", "  ", "\t", "\u00a0", "\u2003\n", "\ufeff", "\u0085"})
	return question{
		Do: "next", Pattern: strings.Join(fields, space), TZ: "UTC", HashSeed: "seed",
		From: time.Date(2024, time.Month(1+g.IntN(12)), 1+g.IntN(28), 0, 0, 0, 0, time.UTC).UnixMilli(),
	}
}
