package cron_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// seedVariable is the environment variable that repeats the questions of an earlier run.
const seedVariable = "CRON_TEST_SEED"

// runQuestions is how many questions about single runs are asked. make test-long asks all of them. The questions of
// each run are different ones.
var runQuestions = 4_000

func init() {
	if os.Getenv("BULLMQ_LONG") != "" {
		runQuestions = 20_000
	}
}

// These specs compare results for generated questions with bullmq, cron-parser and luxon. They are skipped
// without Node.
var _ = Describe("This package, compared with the reference,", Ordered, ContinueOnFailure, func() {
	var (
		peer *reference
		draw *generator
	)

	BeforeAll(func(ctx SpecContext) {
		node, err := nodeprocess.Start("cron.mjs")
		if errors.Is(err, nodeprocess.ErrNodeMissing) || errors.Is(err, nodeprocess.ErrPackagesMissing) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(node.Kill)
		seed := rand.Uint64N(1_000_000_000)
		if text := os.Getenv(seedVariable); text != "" {
			seed, err = strconv.ParseUint(text, 10, 64)
			Expect(err).NotTo(HaveOccurred(), "%s must be a number", seedVariable)
		}
		peer = meet(ctx, node, seed)
		draw = newGenerator(seed, peer.zones)
		AddReportEntry("questions", peer.provenance, ReportEntryVisibilityAlways)
	}, NodeTimeout(time.Minute))

	It("finds the same instants, forward and backward, mostly around clock changes", func(ctx SpecContext) {
		peer.compare(ctx, runQuestions, draw.Rand, draw.run)
	}, NodeTimeout(3*time.Minute))

	It("accepts and rejects the same patterns", func(ctx SpecContext) {
		peer.compare(ctx, 3_000, draw.Rand, draw.oddPattern)
	}, NodeTimeout(time.Minute))

	It("finds the same next run of a job scheduler", func(ctx SpecContext) {
		peer.compare(ctx, 1_000, draw.Rand, draw.upsert)
	}, NodeTimeout(time.Minute))

	It("accepts the same time zones in every spelling", func(ctx SpecContext) {
		names := []string{"utc", "GMT", "UTC+3", "utc-3:30", "Utc+14", "utc+99", "UTC+100", "UTC+3:3", "GMT+3", "+03:00", "Z",
			"US/Pacific-New", "posix/UTC", "right/UTC", "Factory", "localtime", "posixrules", "leapseconds", "Europe", "EST5",
			"GB", "GB-Eire", "NZ-CHAT", "W-SU", "PRC", "ROK", "GMT0", "GMT-0", "Etc/GMT-14", "Etc/GMT-15", "Etc/Unknown"}
		for first := 'A'; first <= 'Z'; first++ { // every abbreviation that Node could have, such as PST
			for _, rest := range threeLetterEnds {
				names = append(names, string(first)+rest)
			}
		}
		for i, zone := range peer.zones { // each in one spelling, because Node is slow with a new one
			spellings := []string{zone, strings.ToLower(zone), strings.ToUpper(zone)}
			names = append(names, spellings[i%len(spellings)])
		}
		// Sources disagree about earlier times, and versions of the database about later ones.
		instants := []int64{instant("2000-01-15T00:00:00Z").UnixMilli(), instant("2020-07-15T00:00:00Z").UnixMilli()}
		for _, name := range names {
			theirs := peer.ask(ctx, question{Do: "zone", TZ: name, Instants: instants})
			zone, err := cron.LoadZone(name)
			Expect(err != nil).To(Equal(theirs.Refused != ""), "%s: here %v, reference %q", name, err, theirs.Refused)
			if err == nil {
				Expect(offsets(zone, instants)).To(Equal(theirs.Offsets), name)
			}
		}
	}, NodeTimeout(time.Minute))
})

// threeLetterEnds are the last letters of zone abbreviations.
var threeLetterEnds = []string{"CT", "ET", "GT", "RT", "ST", "AT", "NT", "TT", "IT", "LT", "DT"}

func offsets(zone *time.Location, instants []int64) []int64 {
	var all []int64
	for _, at := range instants {
		_, seconds := time.UnixMilli(at).In(zone).Zone()
		all = append(all, int64(seconds)*1000)
	}
	return all
}
