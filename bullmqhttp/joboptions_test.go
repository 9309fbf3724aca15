package bullmqhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// defaulting returns options of a queue with default options of jobs.
func defaulting(o bullmq.JobOptions) *bullmq.QueueOptions {
	return &bullmq.QueueOptions{URL: redis.URL(), DefaultJobOptions: &o}
}

// field returns options with one option by its name.
func field(name, value string) bullmq.JobOptions {
	return bullmq.JobOptions{Extra: map[string]json.RawMessage{name: json.RawMessage(value)}}
}

var _ = Describe("The options of a job", func() {
	DescribeTable("can't be set by a route if they would break the replies:", func(name string, o bullmq.JobOptions) {
		s := start(nil, bullmqhttp.Route{}, nil)
		Expect(func() { s.server.Async("other", bullmqhttp.Route{Job: o}) }).To(PanicWith(Equal(`bullmqhttp: route "other": Job must not set ` + name)))
	},
		Entry("the id", "JobID", bullmq.JobOptions{JobID: "a"}),
		Entry("the id by its name", "Extra jobId", field("jobId", `"a"`)),
		Entry("the deduplication", "Deduplication", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "a"}}),
		Entry("the deduplication by its name", "Extra deduplication", field("deduplication", `{"id":"a"}`)),
		Entry("the deduplication by its stored name", "Extra de", field("de", `{"id":"a"}`)),
		Entry("the deduplication by its old name", "Extra debounce", field("debounce", `{"id":"a"}`)),
		Entry("the target", "Target", bullmq.JobOptions{Target: &bullmq.Target{}}),
		Entry("the target by its name", "Extra target", field("target", `{}`)),
		Entry("the parent", "Parent", bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "a", QueueKey: "bull:b"}}),
		Entry("the parent by its name", "Extra parent", field("parent", `{"id":"a","queue":"bull:b"}`)),
		Entry("the time of creation", "Timestamp", bullmq.JobOptions{Timestamp: time.Now()}),
		Entry("the time of creation by its name", "Extra timestamp", field("timestamp", `1`)),
		Entry("the retention of completed jobs", "KeepCompleted", bullmq.JobOptions{KeepCompleted: bullmq.KeepAll()}),
		Entry("the retention of completed jobs by its name", "Extra removeOnComplete", field("removeOnComplete", `true`)),
		Entry("the retention of failed jobs", "KeepFailed", bullmq.JobOptions{KeepFailed: bullmq.KeepNone()}),
		Entry("the retention of failed jobs by its name", "Extra removeOnFail", field("removeOnFail", `true`)),
		Entry("a repetition", "Extra repeat", field("repeat", `{"every":1000}`)),
		Entry("a scheduler", "Extra repeatJobKey", field("repeatJobKey", `"a"`)),
		Entry("a scheduler by its stored name", "Extra rjk", field("rjk", `"a"`)),
		Entry("the last time of a scheduler", "Extra prevMillis", field("prevMillis", `1`)),
	)

	DescribeTable("are not inherited from the queue if they would break the replies:", func(o bullmq.JobOptions) {
		s := start(nil, bullmqhttp.Route{}, defaulting(o))
		first, second := s.submit(), s.submit()
		Expect(second.job().ID).NotTo(Equal(first.job().ID))
		for _, a := range []answer{first, second} {
			Expect(a.status).To(Equal(http.StatusAccepted), a.body)
			key := "bull:" + s.queue.Name() + ":" + a.job().ID
			Expect(command(redis, "HGET", key, "opts")).To(MatchJSON(
				`{"attempts":0,"jobId":"` + a.job().ID + `","removeOnComplete":{"age":86400},"removeOnFail":{"age":86400}}`))
			for _, name := range []string{"rjk", "deid", "parentKey", "parent"} {
				Expect(exists(key, name)).To(BeFalse(), name)
			}
			Expect(s.get(a.header.Get("Location"), "").job().Created).To(BeTemporally("~", time.Now(), time.Minute))
		}
		s.work(greet)
		Expect(s.ended(first.header.Get("Location")).State).To(Equal(bullmqhttp.Succeeded))
		Expect(s.get(second.header.Get("Location"), "/result?wait=25").body).To(Equal("hello"))
	},
		Entry("none are set", bullmq.JobOptions{}),
		Entry("an id", bullmq.JobOptions{JobID: "a"}),
		Entry("a deduplication", bullmq.JobOptions{Deduplication: &bullmq.Deduplication{ID: "a"}}),
		Entry("a deduplication by its stored name", field("de", `{"id":"a"}`)),
		Entry("a target", bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"gpu"}}}),
		Entry("a target by its name", field("target", `{"capabilities":["gpu"]}`)),
		Entry("a parent", bullmq.JobOptions{Parent: &bullmq.ParentRef{ID: "a", QueueKey: "bull:b"}}),
		Entry("a time of creation", bullmq.JobOptions{Timestamp: time.UnixMilli(1000)}),
		Entry("retention", bullmq.JobOptions{KeepCompleted: bullmq.KeepNone(), KeepFailed: bullmq.KeepNone()}),
		Entry("a repetition", field("repeat", `{"every":1000}`)),
		Entry("a scheduler", field("repeatJobKey", `"a"`)),
		Entry("a repetition with the last time of a scheduler", bullmq.JobOptions{Extra: map[string]json.RawMessage{
			"repeat": json.RawMessage(`{"every":1000}`), "prevMillis": json.RawMessage("1"), "rjk": json.RawMessage(`"a"`),
		}}),
	)

	DescribeTable("are inherited from the queue if they do no harm, and a route overrides them:", func(defaults, own bullmq.JobOptions, inherited, overridden string) {
		s := start(nil, bullmqhttp.Route{}, defaulting(defaults))
		mux := http.NewServeMux()
		mux.Handle("POST /own", s.server.Async("own", bullmqhttp.Route{Job: own}))
		opts := func(id string) string {
			text := command(redis, "HGET", "bull:"+s.queue.Name()+":"+id, "opts")
			var all map[string]json.RawMessage
			Expect(json.Unmarshal([]byte(text), &all)).To(Succeed())
			for _, name := range []string{"jobId", "removeOnComplete", "removeOnFail"} {
				delete(all, name)
			}
			rest, err := json.Marshal(all)
			Expect(err).NotTo(HaveOccurred())
			return string(rest)
		}
		Expect(opts(s.submit().job().ID)).To(MatchJSON(inherited))
		web := httptest.NewServer(mux)
		DeferCleanup(web.Close)
		s.url = web.URL
		Expect(opts(s.do("POST", "/own", "").job().ID)).To(MatchJSON(overridden))
	},
		Entry("attempts and backoff", bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(time.Second)}, bullmq.JobOptions{Attempts: 2},
			`{"attempts":3,"backoff":{"type":"fixed","delay":1000}}`, `{"attempts":2,"backoff":{"type":"fixed","delay":1000}}`),
		Entry("delay", bullmq.JobOptions{Delay: time.Hour}, bullmq.JobOptions{Delay: time.Minute}, `{"attempts":0,"delay":3600000}`, `{"attempts":0,"delay":60000}`),
		Entry("priority", bullmq.JobOptions{Priority: 5}, bullmq.JobOptions{Priority: 6}, `{"attempts":0,"priority":5}`, `{"attempts":0,"priority":6}`),
		Entry("order", bullmq.JobOptions{LIFO: true}, bullmq.JobOptions{Reset: []string{"lifo"}}, `{"attempts":0,"lifo":true}`, `{"attempts":0}`),
		Entry("logs and stacks", bullmq.JobOptions{KeepLogs: 5, StackTraceLimit: 6}, bullmq.JobOptions{KeepLogs: 7},
			`{"attempts":0,"kl":5,"stackTraceLimit":6}`, `{"attempts":0,"kl":7,"stackTraceLimit":6}`),
		Entry("options that are not known", field("tenant", `"a"`), field("tenant", `"b"`), `{"attempts":0,"tenant":"a"}`, `{"attempts":0,"tenant":"b"}`),
		Entry("the limit of the size", bullmq.JobOptions{SizeLimit: 5000}, bullmq.JobOptions{SizeLimit: 6000}, `{"attempts":0,"sizeLimit":5000}`, `{"attempts":0,"sizeLimit":6000}`),
	)

	DescribeTable("with a limit of the size refuse a larger request with 413 and the limit:", func(defaults, own bullmq.JobOptions) {
		s := start(nil, bullmqhttp.Route{Job: own}, defaulting(defaults))
		Expect(s.submit().status).To(Equal(http.StatusAccepted))
		a := s.do("POST", "/reports/7", strings.Repeat("a", 1000), "Content-Type", "text/plain")
		Expect(a.status).To(Equal(http.StatusRequestEntityTooLarge))
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooLarge))
		Expect(a.body).To(ContainSubstring("the limit is 1000"))
		Expect(s.jobs()).To(Equal(1))
	},
		Entry("of the route", bullmq.JobOptions{}, bullmq.JobOptions{SizeLimit: 1000}),
		Entry("of the queue", bullmq.JobOptions{SizeLimit: 1000}, bullmq.JobOptions{}),
		Entry("of both", bullmq.JobOptions{SizeLimit: 10}, bullmq.JobOptions{SizeLimit: 1000}),
	)

	It("that a middleware changes to another id make the reply 500, and the log says why", func() {
		o, log := logged(&bullmqhttp.Options{})
		s := start(o, bullmqhttp.Route{}, &bullmq.QueueOptions{URL: redis.URL(), Middleware: []bullmq.AddMiddleware{
			func(next bullmq.AddFunc) bullmq.AddFunc {
				return func(ctx context.Context, jobs []*bullmq.NewJob) error {
					for _, job := range jobs {
						job.Options.JobID = "other"
					}
					return next(ctx, jobs)
				}
			},
		}})
		a := s.submit()
		Expect(a.status).To(Equal(http.StatusInternalServerError))
		Expect(a.code()).To(Equal(bullmqhttp.CodeInternal))
		Expect(a.body).NotTo(ContainSubstring("other"))
		Eventually(log).Should(gbytes.Say("replaced job rq-.* by other of queue"))
	})
})

// exists reports whether a hash has a field.
func exists(key, name string) bool {
	GinkgoHelper()
	return command(redis, "EVAL", "return tostring(redis.call('HEXISTS', KEYS[1], ARGV[1]))", "1", key, name) == "1"
}

var _ = Describe("What Carry returns", func() {
	DescribeTable("makes the reply 500, and the log says why, if it can't be written as JSON:", func(value any) {
		bodies := &shelf{}
		o, log := logged(storing(bodies))
		o.Carry = func(*http.Request) (any, error) { return value, nil }
		s := start(o, bullmqhttp.Route{}, nil)
		a := s.submit()
		Expect(a.status).To(Equal(http.StatusInternalServerError))
		Expect(a.code()).To(Equal(bullmqhttp.CodeInternal))
		Expect(a.header).NotTo(HaveKey("Retry-After"))
		Expect(a.body).NotTo(ContainSubstring("json"))
		Eventually(log).Should(gbytes.Say("the result of Options.Carry can't be written as JSON: json: "))
		Expect(s.jobs()).To(BeZero())
		Expect(bodies.seen()).To(BeEmpty())
	},
		Entry("a function", func() {}),
		Entry("a channel in a map", map[string]any{"a": make(chan int)}),
		Entry("malformed JSON", json.RawMessage(`{"a":`)),
	)

	It("is stored, even if it is nothing", func() {
		var value any
		s := start(&bullmqhttp.Options{Carry: func(*http.Request) (any, error) { return value, nil }}, bullmqhttp.Route{}, nil)
		Expect(string(s.stored(s.submit()).Carry)).To(Equal("null"))
		value = map[string]string{"tenant": "<a>"}
		Expect(string(s.stored(s.submit()).Carry)).To(Equal(`{"tenant":"<a>"}`))
	})
})

var _ = DescribeTable("An error of Carry or Owner refuses the request, and no body is stored:", func(set func(o *bullmqhttp.Options, err error)) {
	bodies := &shelf{}
	o, log := logged(storing(bodies))
	set(o, errors.New("the secret reason"))
	s := start(o, bullmqhttp.Route{}, nil)
	a := s.submit()
	Expect(a.status).To(Equal(http.StatusForbidden))
	Expect(a.code()).To(Equal(bullmqhttp.CodeForbidden))
	Expect(a.body).NotTo(ContainSubstring("secret"))
	Eventually(log).Should(gbytes.Say("the secret reason"))

	o = storing(bodies)
	set(o, fmt.Errorf("wrapped: %w", &bullmqhttp.Problem{Status: http.StatusPaymentRequired, Code: "NO_PLAN"}))
	s = start(o, bullmqhttp.Route{}, nil)
	a = s.submit()
	Expect(a.status).To(Equal(http.StatusPaymentRequired))
	Expect(a.code()).To(Equal("NO_PLAN"))
	Expect(s.jobs()).To(BeZero())
	Expect(bodies.seen()).To(BeEmpty())
},
	Entry("Carry", func(o *bullmqhttp.Options, err error) {
		o.Carry = func(*http.Request) (any, error) { return nil, err }
	}),
	Entry("Owner", func(o *bullmqhttp.Options, err error) {
		o.Owner = func(*http.Request) (string, error) { return "", err }
	}),
)
