package bullmq_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// entry is a log line without its time and stack.
type entry struct {
	level, message string
	fields         map[string]any
}

// entriesOf returns the lines that a logger of zerolog or a JSON handler of slog has written.
func entriesOf(lines string) []entry {
	GinkgoHelper()
	var all []entry
	for line := range strings.Lines(lines) {
		var e entry
		Expect(json.Unmarshal([]byte(line), &e.fields)).To(Succeed())
		take := func(key string) string {
			value, _ := e.fields[key].(string)
			delete(e.fields, key)
			return value
		}
		e.level, e.message = strings.ToLower(take("level")), take("message")+take("msg")
		take("time")
		if stack, is := e.fields["stack"]; is {
			Expect(stack).To(ContainSubstring("logger_test.go"))
			e.fields["stack"] = "…"
		}
		all = append(all, e)
	}
	return all
}

func toZerolog(level zerolog.Level) func(io.Writer) bullmq.Logger {
	return func(to io.Writer) bullmq.Logger { return bullmq.Zerolog(zerolog.New(to).Level(level)) }
}

func toSlog(level slog.Level) func(io.Writer) bullmq.Logger {
	return func(to io.Writer) bullmq.Logger {
		return bullmq.Slog(slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})))
	}
}

var _ = Describe("A Logger", func() {
	// happenings lets a worker log a warning about its server, a failed attempt that is retried, the
	// failure of the job, a panic of the handler and one of an event function.
	happenings := func(loggerTo func(io.Writer) bullmq.Logger) (entries []entry, address string) {
		GinkgoHelper()
		evicting := startRedis(redisserver.Options{Config: []string{"maxmemory-policy allkeys-lru"}})
		link := bullmq.URL(evicting.URL())
		queue := newQueue("paints", &bullmq.QueueOptions{Connection: link})
		for _, job := range []string{"fails", "panics"} {
			_, err := queue.Add(specContext(), job, nil, &bullmq.JobOptions{JobID: job, Attempts: 2})
			Expect(err).NotTo(HaveOccurred())
		}
		var lines logLines
		failures := make(chan error, 10)
		worker := runWorker("paints", func(_ context.Context, job *bullmq.Job) (any, error) {
			if job.Name == "panics" {
				panic("no brush")
			}
			return nil, errors.New("no paint")
		}, &bullmq.WorkerOptions{
			Connection: link, Name: "painter", Logger: loggerTo(&lines),
			Events: bullmq.WorkerEvents{Failed: func(_ *bullmq.Job, err error) { failures <- err }, Closing: func() { panic(errors.New("in Closing")) }},
		})
		Eventually(failures).Should(HaveLen(4)) // then none of the jobs runs any more
		Expect(worker.Close()).To(Succeed())
		return entriesOf(lines.all()), evicting.Addr()
	}
	failure := func(level, message, job, err string, attempt int, retry bool, more ...string) entry {
		e := entry{level, message, map[string]any{
			"queue": "paints", "worker": "painter", "job": job, "name": job, "error": err, "attempt": float64(attempt), "retry": retry,
		}}
		for _, key := range more {
			e.fields[key] = "…"
		}
		return e
	}
	const retried, failed = "an attempt of a job failed; the job is retried", "a job failed; Job.Retry runs it again"

	DescribeTable("writes the same levels, messages and fields", func(loggerTo func(io.Writer) bullmq.Logger) {
		entries, address := happenings(loggerTo)
		ofWorker := func(message, field string, value any) entry {
			e := entry{"info", message, map[string]any{"queue": "paints", "worker": "painter"}}
			if field != "" {
				e.fields[field] = value
			}
			return e
		}
		Expect(entries).To(ConsistOf(
			ofWorker("the worker runs", "concurrency", 1.0),
			ofWorker("the worker stops; it fetches no more jobs, and waits for those that run", "count", 0.0),
			ofWorker("the worker has stopped", "", nil),
			entry{"warn", "Redis may evict jobs and locks when its memory is full; the queue is used all the same; set maxmemory-policy noeviction",
				map[string]any{"queue": "paints", "worker": "painter", "address": address, "maxmemory_policy": "allkeys-lru"}},
			failure("info", retried, "fails", "no paint", 1, true),
			failure("warn", failed, "fails", "no paint", 2, false),
			failure("error", retried, "panics", "panic: no brush", 1, true, "stack"),
			failure("error", failed, "panics", "panic: no brush", 2, false, "stack"),
			entry{"error", "a function given to the worker panicked; the worker continues without its result; fix the function",
				map[string]any{"queue": "paints", "worker": "painter", "function": "closing", "panic": "in Closing", "stack": "…"}},
		))
	},
		Entry("through zerolog", toZerolog(zerolog.TraceLevel)),
		Entry("through slog", toSlog(slog.LevelDebug)),
	)

	DescribeTable("leaves out lines below the level of", func(loggerTo func(io.Writer) bullmq.Logger, levels ...any) {
		entries, _ := happenings(loggerTo)
		got := map[any]bool{}
		for _, e := range entries {
			got[e.level] = true
		}
		Expect(got).To(HaveLen(len(levels)))
		for _, level := range levels {
			Expect(got).To(HaveKey(level))
		}
	},
		Entry("zerolog's info", toZerolog(zerolog.InfoLevel), "info", "warn", "error"),
		Entry("zerolog's warn", toZerolog(zerolog.WarnLevel), "warn", "error"),
		Entry("zerolog's error", toZerolog(zerolog.ErrorLevel), "error"),
		Entry("a disabled zerolog", toZerolog(zerolog.Disabled)),
		Entry("slog's info", toSlog(slog.LevelInfo), "info", "warn", "error"),
		Entry("slog's warn", toSlog(slog.LevelWarn), "warn", "error"),
		Entry("slog's error", toSlog(slog.LevelError), "error"),
		Entry("a slog above error", toSlog(slog.LevelError+1)),
	)

	It("leaves the time to zerolog's logger and the attributes and groups to slog's", func() {
		job := &bullmq.Job{ID: "1", Name: "paint"}
		var lines logLines
		bullmq.FailureLog(bullmq.Zerolog(zerolog.New(&lines)), job, errors.New("no paint"))()
		Expect(lines.all()).NotTo(ContainSubstring(`"time"`))
		bullmq.FailureLog(bullmq.Zerolog(zerolog.New(&lines).With().Timestamp().Logger()), job, errors.New("no paint"))()
		Expect(strings.Count(lines.all(), `"time"`)).To(Equal(1))

		var grouped logLines
		bullmq.FailureLog(bullmq.Slog(slog.New(slog.NewJSONHandler(&grouped, nil)).With("app", "shop").WithGroup("queues")), job, errors.New("no paint"))()
		Expect(grouped.all()).To(ContainSubstring(`"app":"shop","queues":{"job":"1","name":"paint"`))
	})

	It("names the first queues and the registry of a worker for many queues", func() {
		var lines logLines
		worker := newMultiWorker(func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, bullmq.MultiWorkerOptions{
			Worker:   bullmq.WorkerOptions{Logger: bullmq.Zerolog(zerolog.New(&lines))},
			Queues:   []bullmq.ServedQueue{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}},
			Registry: newQueueName(),
		})
		run(worker)
		Eventually(lines.all).Should(MatchRegexp(`"queues":"a, b, c, 2 more, those of registry [^"]+","concurrency":\d+,"message":"the worker runs"`))
	})

	It("tells which generation of shards a worker serves", func(ctx SpecContext) {
		var lines logLines
		sharded := newSharded(newQueueName(), 2, bullmq.ShardedQueueOptions{Queue: bullmq.QueueOptions{Logger: bullmq.Zerolog(zerolog.New(&lines))}})
		runSharded(sharded, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, nil)
		Eventually(lines.all).Should(ContainSubstring(`"generation":0,"shards":2,"message":"the worker serves the shards of the current generation"`))
		Expect(sharded.Resize(ctx, 3)).To(Succeed())
		Eventually(lines.all).Should(ContainSubstring(`"generation":1,"shards":3,"message":"the worker serves the shards of the current generation"`))
	})

	It("passes slog's handler the error itself", func() {
		refused, handler := errors.New("refused"), &recorder{}
		bullmq.FailureLog(bullmq.Slog(slog.New(handler)), &bullmq.Job{ID: "1"}, refused)()
		Expect(handler.records).To(HaveLen(1))
		var got any
		handler.records[0].Attrs(func(a slog.Attr) bool {
			if a.Key == "error" {
				got = a.Value.Any()
			}
			return true
		})
		Expect(got).To(BeIdenticalTo(refused))
	})

	DescribeTable("allocates nothing for a failed job", func(to bullmq.Logger) {
		Expect(testing.AllocsPerRun(100, bullmq.FailureLog(to, &bullmq.Job{ID: "1", Name: "paint"}, errors.New("no paint")))).To(BeZero())
	},
		Entry("if it is the zero value", bullmq.Logger{}),
		Entry("if it was made of no logger", bullmq.Slog(nil)),
		Entry("if it was made of a logger without a writer", bullmq.Zerolog(zerolog.Logger{})),
		Entry("if the level of zerolog is higher", bullmq.Zerolog(zerolog.New(GinkgoWriter).Level(zerolog.WarnLevel))),
		Entry("if the level of slog is higher", bullmq.Slog(slog.New(slog.NewJSONHandler(GinkgoWriter, &slog.HandlerOptions{Level: slog.LevelWarn})))),
	)
})

// recorder is a handler of slog that keeps what it is given.
type recorder struct{ records []slog.Record }

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	r.records = append(r.records, record)
	return nil
}
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recorder) WithGroup(string) slog.Handler      { return r }
