package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
	"github.com/17a2ac88/bullmq-go/internal/nodeprocess"
)

// seedVariable, in the environment, repeats a run of the comparison with the reference.
const seedVariable = "CRON_TEST_SEED"

// question is one for interop/node/cron.mjs.
type question struct {
	Do         string         `json:"do"`
	Pattern    string         `json:"pattern"`
	TZ         string         `json:"tz,omitempty"`
	HashSeed   string         `json:"hashSeed,omitempty"`
	From       int64          `json:"from"`
	Options    map[string]any `json:"options,omitempty"`
	PrevMillis int64          `json:"prevMillis,omitempty"`
	Now        int64          `json:"now,omitempty"`
	Instants   []int64        `json:"instants,omitempty"`
}

func (q question) String() string {
	text, _ := json.Marshal(q)
	return string(text)
}

// answer has one of At, None, Refused and Offsets.
type answer struct {
	At      *int64
	None    string
	Refused string
	Offsets []int64
}

func (a answer) String() string {
	switch {
	case a.At != nil:
		return fmt.Sprintf("%d (%s)", *a.At, time.UnixMilli(*a.At).UTC().Format(time.RFC3339Nano))
	case a.None != "":
		return "none: " + a.None
	default:
		return "refused: " + a.Refused
	}
}

func (a answer) agrees(with answer) bool {
	if a.At != nil && with.At != nil {
		return *a.At == *with.At
	}
	return a.At == nil && with.At == nil && (a.None == "") == (with.None == "")
}

// ours is what this package makes of a question, and whether it went on until it gave up.
func ours(q question) (own answer, gaveUp bool) {
	at, err := ourRun(q)
	switch {
	case errors.Is(err, cron.ErrNoRun):
		return answer{None: err.Error()}, errors.Is(err, cron.ErrGaveUp)
	case err != nil:
		return answer{Refused: err.Error()}, false
	default:
		return answer{At: &at}, false
	}
}

func ourRun(q question) (int64, error) {
	if q.Do == "upsert" {
		date := func(name string) int64 { millis, _ := q.Options[name].(int64); return millis }
		text := func(name string) string { value, _ := q.Options[name].(string); return value }
		immediately, _ := q.Options["immediately"].(bool)
		return cron.Plan{
			Pattern: text("pattern"), TimeZone: text("tz"), HashSeed: text("hashSeed"),
			StartDate: date("startDate"), EndDate: date("endDate"), Immediately: immediately, PrevMillis: q.PrevMillis,
		}.NextRun(q.Now)
	}
	schedule, err := cron.ParseSeeded(q.Pattern, q.HashSeed)
	if err != nil {
		return 0, err
	}
	zone, err := cron.LoadZone(q.TZ)
	if err != nil {
		return 0, err
	}
	find := schedule.Next
	if q.Do == "prev" {
		find = schedule.Prev
	}
	run, ok := find(time.UnixMilli(q.From), zone)
	if !ok {
		return 0, cron.ErrGaveUp
	}
	return run.UnixMilli(), nil
}

var _ = Describe("Compared with the reference", Ordered, func() {
	var (
		node     *nodeprocess.Process
		versions string
		zones    []string
		seed     uint64
		draw     *generator
	)

	ask := func(ctx context.Context, into any) {
		GinkgoHelper()
		line, err := node.WaitFor(ctx, func(nodeprocess.Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(line.Decode(into)).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		var err error
		node, err = nodeprocess.Start("cron.mjs")
		if errors.Is(err, nodeprocess.ErrNodeMissing) || errors.Is(err, nodeprocess.ErrPackagesMissing) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(node.Kill)
		Expect(node.Send(question{Do: "about"})).To(Succeed())
		var about struct {
			Versions string
			Zones    []string
		}
		ask(ctx, &about)
		versions, zones = about.Versions, about.Zones
		Expect(len(zones)).To(BeNumerically(">", 300))

		seed = rand.Uint64N(1_000_000_000)
		if text := os.Getenv(seedVariable); text != "" {
			seed, err = strconv.ParseUint(text, 10, 64)
			Expect(err).NotTo(HaveOccurred(), "%s takes a number", seedVariable)
		}
		AddReportEntry("cron seed", fmt.Sprintf("%s=%d, %s", seedVariable, seed, versions), ReportEntryVisibilityAlways)
	}, NodeTimeout(time.Minute))

	// differs explains a difference by other time zone data on the Node side, if there are any.
	zoneDataDiffers := func(ctx context.Context, q question, results ...answer) bool {
		GinkgoHelper()
		zone, err := cron.LoadZone(q.TZ)
		if err != nil {
			return false
		}
		first, last := q.From, q.From
		for _, result := range results {
			if result.At != nil {
				first, last = min(first, *result.At), max(last, *result.At)
			}
		}
		const day = 24 * 60 * 60 * 1000
		var instants []int64
		for at := first - 2*day; at <= last+2*day; at += max(day/96, (last-first)/5000) {
			instants = append(instants, at)
		}
		Expect(node.Send(question{Do: "zone", TZ: q.TZ, Instants: instants})).To(Succeed())
		var theirs answer
		ask(ctx, &theirs)
		for i, offset := range theirs.Offsets {
			if _, seconds := time.UnixMilli(instants[i]).In(zone).Zone(); int64(seconds)*1000 != offset {
				return true
			}
		}
		return false
	}

	// compare puts questions to both sides. Where this package gives up, so should the reference, but each time costs
	// it 10,000 steps: only a sample of those is put to it, drawn at random from all.
	compare := func(ctx context.Context, count int, next func() question) {
		GinkgoHelper()
		const sample = 10
		type asked struct {
			question question
			own      answer
		}
		questions := make(chan asked, count+sample)
		sent := make(chan error, 1)
		var fruitless int
		go func() {
			defer close(questions)
			var stuck []asked
			send := func(q asked) bool {
				err := node.Send(q.question)
				if err != nil {
					sent <- err
					return false
				}
				questions <- q
				return true
			}
			for done := 0; done < count; {
				q := next()
				own, gaveUp := ours(q)
				if gaveUp {
					fruitless++
					stuck = append(stuck, asked{q, own})
					continue
				}
				if !send(asked{q, own}) {
					return
				}
				done++
			}
			for _, i := range draw.Perm(len(stuck))[:min(sample, len(stuck))] {
				if !send(stuck[i]) {
					return
				}
			}
			sent <- nil
		}()
		var compared, ran, refused, otherData int
		var differences []string
		for q := range questions {
			var theirs answer
			ask(ctx, &theirs)
			compared++
			switch {
			case q.own.agrees(theirs) && theirs.At != nil:
				ran++
			case q.own.agrees(theirs) && theirs.Refused != "":
				refused++
			case !q.own.agrees(theirs):
				differences = append(differences, fmt.Sprintf("%v\n  here:      %v\n  reference: %v", q.question, q.own, theirs))
			}
		}
		Expect(<-sent).To(Succeed())
		AddReportEntry("compared", fmt.Sprintf("%d: %d with a run, %d refused; given up by us %d, of which compared at most %d",
			compared, ran, refused, fruitless, sample), ReportEntryVisibilityAlways)
		_ = otherData
		Expect(differences).To(BeEmpty(), "%d of %d differ; repeat with %s=%d; %s; Go %s",
			len(differences), compared, seedVariable, seed, versions, runtime.Version())
		Expect(ran).To(BeNumerically(">", compared/20))
	}
	_ = zoneDataDiffers
	_ = strings.ToLower
	_ = compare
	_ = zones
})
