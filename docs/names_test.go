package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// api is the exported identifiers of the public packages: Type, Func, Type.Method, Type.Field.
type api map[string]map[string]bool

func readAPI() api {
	GinkgoHelper()
	known := api{}
	for name, directory := range map[string]string{
		"bullmq": "../bullmq", "middleware": "../bullmq/middleware", "bullmqotel": "../bullmq/bullmqotel",
		"bullmqprom": "../bullmqprom", "bullmqpush": "../bullmqpush", "bullmqtest": "../bullmqtest", "bullmqhttp": "../bullmqhttp", "dashboard": "../dashboard",
	} {
		known[name] = exportedBy(directory)
	}
	return known
}

// any reports whether a package has an identifier that is accepted.
func (a api) any(accept func(name string) bool) bool {
	for _, names := range a {
		for name := range names {
			if accept(name) {
				return true
			}
		}
	}
	return false
}

// has reports whether a package has the identifier.
func (a api) has(name string) bool { return a.any(func(known string) bool { return known == name }) }

// hasMembers reports whether a package has a type of that name with fields or methods.
func (a api) hasMembers(name string) bool {
	return a.any(func(known string) bool { return strings.HasPrefix(known, name+".") })
}

// hasMember reports whether a package has an identifier, field or method of that name.
func (a api) hasMember(name string) bool {
	return a.any(func(known string) bool { return known == name || strings.HasSuffix(known, "."+name) })
}

// receivers are the names of variables in the pages, with their types.
var receivers = map[string]string{
	"queue": "Queue", "orders": "Queue", "dead": "Queue", "worker": "Worker", "flows": "FlowProducer", "events": "QueueEvents",
	"mux": "Mux", "server": "Server", "kit": "Kit", "fetcher": "Fetcher", "Welcome": "JobType", "Bill": "JobType", "Remind": "JobType",
}

// foreign are names without a package that belong to Redis, rueidis, net/http, Node, or an example.
var foreign = []string{
	"WriteTimeout", "ReadBufferEachConn", "WriteBufferEachConn", "RingScaleEachConn", "BlockingPoolSize", "ConnWriteTimeout",
	"AbortSignal", "EventSource", "NaN", "QueueEventsProducer", "DelayedError", "UnrecoverableError", "Receipt", "Deprecated", "GinkgoTB", "RegisterOnShutdown", "Location", "Prefer", "Accept", "Allow", "Cookie", "Authorization", "ETag", "Link",
}

var (
	// The begin of a piece of code: an identifier, with what comes before a dot.
	mentioned = regexp.MustCompile(`^[&*]?(?:(\w+)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	// A word that continues, such as the name of a time zone or of a header.
	otherWord = regexp.MustCompile(`^\w+[-/]`)
	// A word of capitals only, such as a command of Redis.
	capitals  = regexp.MustCompile(`^[A-Z0-9_]+$`)
	codeFence = regexp.MustCompile("(?ms)^```.*?^```$")
)

// check returns the name that the code begins with, and whether it exists. The name is empty if it is of another
// package or language.
func (a api) check(code string) (name string, exists bool) {
	parts := mentioned.FindStringSubmatch(code)
	if parts == nil {
		return "", true
	}
	before, first, second := parts[1], parts[2], parts[3]
	switch {
	case a[before] != nil: // bullmq.Queue, bullmq.Queue.Add
		name = strings.TrimSuffix(first+"."+second, ".")
		return before + "." + name, a[before][name]
	case receivers[before] != "": // queue.Add
		name = receivers[before] + "." + first
		return name, a.has(name)
	case before != "" && a.hasMembers(before): // Queue.Add
		return before + "." + first, a.has(before + "." + first)
	case before == "job": // of package bullmq, or of bullmqtest, whose type has both
		return "Job." + first, a.has("Job."+first) || a["bullmqtest"]["RecordedJob."+first]
	case before != "" || capitals.MatchString(first) || slices.Contains(foreign, first) || otherWord.MatchString(code):
		return "", true
	case strings.HasPrefix(code[len(parts[0]):], "…"): // ErrMoved…
		return first, a.any(func(known string) bool { return strings.HasPrefix(known, first) })
	default: // Add, Queue
		return first, a.hasMember(first)
	}
}

var _ = Describe("The pages for users", func() {
	It("name only functions, types, fields and methods that exist", func() {
		known := readAPI()
		var missing []string
		found := 0
		for _, page := range []string{
			"../README.md", "cancelling.md", "dashboard.md", "operating.md", "scaling.md", "dead-letters.md", "flows.md", "guarantees.md", "handlers.md", "http.md", "legacy-queues.md", "metrics.md",
			"migrating.md", "mixed-fleets.md", "push.md", "recipes.md", "releasing.md", "routing.md", "schedulers.md", "security.md", "telemetry.md", "testing.md",
			"workers.md",
		} {
			text, _, _ := strings.Cut(codeFence.ReplaceAllString(read(page), ""), "\n## Compared with ") // with other libraries
			if page == "migrating.md" {
				text = regexp.MustCompile(`(?m)^\|.*?[^\\]\|`).ReplaceAllString(text, "|") // the first column names other libraries
			}
			for _, code := range spans(text) {
				name, exists := known.check(code)
				if name != "" {
					found++
				}
				if !exists {
					missing = append(missing, page+": "+name)
				}
			}
		}
		Expect(missing).To(BeEmpty())
		Expect(found).To(BeNumerically(">", 500))
	})

	DescribeTable("are checked for names:", func(code, name string, exists bool) {
		found, has := readAPI().check(code)
		Expect(found).To(Equal(name))
		Expect(has).To(Equal(exists))
	},
		Entry("a method", "Queue.ConnectedWorkers", "Queue.ConnectedWorkers", true),
		Entry("a method that another type has", "Queue.Handle", "Queue.Handle", false),
		Entry("a method by a variable", "queue.Handle(ctx)", "Queue.Handle", false),
		Entry("a field of options", "&bullmq.WorkerOptions{Name: n}", "bullmq.WorkerOptions", true),
		Entry("a name alone", "ConnectedWorker", "ConnectedWorker", false),
		Entry("the begin of names", "ErrMoved…", "ErrMoved", true),
		Entry("a name of another package", "slog.Default", "", true),
		Entry("a call of Node", "queue.add(name)", "", true),
	)
})

var _ = Describe("The doc comments of package bullmq", func() {
	// A link to an exported identifier of the package, such as [Queue.Add].
	docLink := regexp.MustCompile(`(?m)^\s*//.*?\[\*?([A-Z]\w+(?:\.[A-Z]\w+)?)\]`)

	It("link only to identifiers that exist", func() {
		known := exported()
		files, err := filepath.Glob("../bullmq/*.go")
		Expect(err).NotTo(HaveOccurred())
		var missing []string
		found := 0
		for _, file := range files {
			for line := range strings.Lines(read(file)) {
				for rest := line; ; {
					link := docLink.FindStringSubmatchIndex(rest)
					if link == nil {
						break
					}
					found++
					if name := rest[link[2]:link[3]]; !known[name] {
						missing = append(missing, file+": "+name)
					}
					rest = "//" + rest[link[1]:]
				}
			}
		}
		Expect(missing).To(BeEmpty())
		Expect(found).To(BeNumerically(">", 100))
	})
})
