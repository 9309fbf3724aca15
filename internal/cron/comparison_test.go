package cron_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// question is a request to interop/node/cron.mjs, which documents the fields.
type question struct {
	Do         string         `json:"do"`
	Pattern    string         `json:"pattern,omitempty"`
	TZ         string         `json:"tz,omitempty"`
	HashSeed   string         `json:"hashSeed,omitempty"`
	From       int64          `json:"from"`
	Options    map[string]any `json:"options,omitempty"`
	PrevMillis int64          `json:"prevMillis"`
	Now        int64          `json:"now"`
	Instants   []int64        `json:"instants,omitempty"`
}

func (q question) String() string {
	text, _ := json.Marshal(q)
	return string(text)
}

// result has exactly one of At, None, Refused and Offsets.
type result struct {
	At      *int64
	None    string
	Refused string
	Offsets []int64
}

func (a result) String() string {
	switch {
	case a.At != nil:
		return fmt.Sprintf("%d, %s", *a.At, time.UnixMilli(*a.At).UTC().Format(time.RFC3339Nano))
	case a.None != "":
		return "none: " + a.None
	default:
		return "refused: " + a.Refused
	}
}

func (a result) equals(b result) bool {
	if a.At != nil && b.At != nil {
		return *a.At == *b.At
	}
	return a.At == nil && b.At == nil && (a.None == "") == (b.None == "")
}

// ours returns the result of this package and reports whether the search gave up.
func ours(q question) (own result, gaveUp bool) {
	at, err := ourRun(q)
	switch {
	case err == nil:
		return result{At: &at}, false
	case errors.Is(err, cron.ErrNoRun):
		return result{None: err.Error()}, errors.Is(err, cron.ErrGaveUp)
	default:
		return result{Refused: err.Error()}, false
	}
}

func ourRun(q question) (int64, error) {
	if q.Do == "upsert" {
		return planOf(q).NextRun(q.Now)
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

func planOf(q question) cron.Plan {
	plan := cron.Plan{PrevMillis: q.PrevMillis}
	plan.Pattern, _ = q.Options["pattern"].(string)
	plan.TimeZone, _ = q.Options["tz"].(string)
	plan.HashSeed, _ = q.Options["hashSeed"].(string)
	plan.StartDate, _ = q.Options["startDate"].(int64)
	plan.EndDate, _ = q.Options["endDate"].(int64)
	plan.Immediately, _ = q.Options["immediately"].(bool)
	return plan
}

// reference is the program that computes bullmq's results.
type reference struct {
	node       *nodeprocess.Process
	zones      []string
	provenance string // versions and seed, for the report
}

func meet(ctx context.Context, node *nodeprocess.Process, seed uint64) *reference {
	GinkgoHelper()
	r := &reference{node: node}
	Expect(node.Send(question{Do: "about"})).To(Succeed())
	var about struct {
		Versions string
		Zones    []string
	}
	r.receive(ctx, &about)
	Expect(len(about.Zones)).To(BeNumerically(">", 300))
	r.zones = about.Zones
	r.provenance = fmt.Sprintf("%s=%d; %s; %s", seedVariable, seed, about.Versions, runtime.Version())
	return r
}

func (r *reference) receive(ctx context.Context, into any) {
	GinkgoHelper()
	line, err := r.node.WaitFor(ctx, func(nodeprocess.Line) bool { return true })
	Expect(err).NotTo(HaveOccurred())
	Expect(line.Decode(into)).To(Succeed())
}

func (r *reference) ask(ctx context.Context, q question) (a result) {
	GinkgoHelper()
	Expect(r.node.Send(q)).To(Succeed())
	r.receive(ctx, &a)
	return a
}

// compared is a question with the results of this package and of the reference.
type compared struct {
	question
	own, theirs result
}

func (c compared) String() string {
	return fmt.Sprintf("%v\n  here:      %v\n  reference: %v", c.question, c.own, c.theirs)
}

// stuckSample is how many of the questions on which this package gives up are put to the reference. Each
// costs the reference 10,000 steps. They are a random sample.
const stuckSample = 4

// compare asks this package and the reference count questions, and a sample of those on which this package
// gives up.
func (r *reference) compare(ctx context.Context, count int, random *rand.Rand, next func() question) {
	GinkgoHelper()
	asked := make(chan compared, count+stuckSample)
	sent := make(chan error, 1)
	stuck := 0
	go func() {
		defer close(asked)
		sent <- func() error {
			put := func(c compared) error {
				if err := r.node.Send(c.question); err != nil {
					return err
				}
				asked <- c
				return nil
			}
			var aside []compared
			for done := 0; done < count; {
				q := next()
				own, gaveUp := ours(q)
				if gaveUp {
					aside = append(aside, compared{question: q, own: own})
					continue
				}
				if err := put(compared{question: q, own: own}); err != nil {
					return err
				}
				done++
			}
			stuck = len(aside)
			random.Shuffle(stuck, func(i, j int) { aside[i], aside[j] = aside[j], aside[i] })
			for _, c := range aside[:min(stuck, stuckSample)] {
				if err := put(c); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	var total, runs, refusals int
	var differ []compared
	for c := range asked {
		r.receive(ctx, &c.theirs)
		total++
		switch {
		case !c.own.equals(c.theirs):
			differ = append(differ, c)
		case c.theirs.At != nil:
			runs++
		case c.theirs.Refused != "":
			refusals++
		}
	}
	Expect(<-sent).To(Succeed())
	Expect(runs).To(BeNumerically(">", total/20), "the questions are useless: hardly any has a run")
	AddReportEntry("compared", fmt.Sprintf("%d: %d with a run, %d refused; this package gave up on %d more, of which %d were compared",
		total, runs, refusals, stuck, min(stuck, stuckSample)), ReportEntryVisibilityAlways)

	var byRules, faults []string
	for _, c := range differ {
		if r.rulesDiffer(ctx, c) {
			byRules = append(byRules, c.String())
		} else {
			faults = append(faults, c.String())
		}
	}
	Expect(faults).To(BeEmpty(), "%d of %d differ: %s", len(faults), total, r.provenance)
	// Node ships its own time zone data, which may be older or newer than this machine's.
	if len(byRules) > 0 {
		AddReportEntry("differences caused by Node's time zone data", strings.Join(byRules, "\n"), ReportEntryVisibilityAlways)
	}
	Expect(len(byRules)).To(BeNumerically("<=", total/100), "update the time zone data of this machine, or Node")
}

// rulesDiffer reports whether the two programs use different offsets around the instants of a comparison.
func (r *reference) rulesDiffer(ctx context.Context, c compared) bool {
	GinkgoHelper()
	const day = 24 * 60 * 60 * 1000
	zoneName, from := c.TZ, c.From
	if c.Do == "upsert" {
		plan := planOf(c.question)
		zoneName, from = plan.TimeZone, max(c.Now, c.PrevMillis, plan.StartDate)
	}
	zone, err := cron.LoadZone(zoneName)
	if err != nil {
		return false
	}
	first, last := from, from
	for _, each := range []result{c.own, c.theirs} {
		if each.At != nil {
			first, last = min(first, *each.At), max(last, *each.At)
		}
	}
	var instants []int64
	for at := first - 2*day; at <= last+2*day; at += max(day/96, (last-first)/5000) {
		instants = append(instants, at)
	}
	theirs := r.ask(ctx, question{Do: "zone", TZ: zoneName, Instants: instants})
	return theirs.Refused == "" && !slices.Equal(offsets(zone, instants), theirs.Offsets)
}
