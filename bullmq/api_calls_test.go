package bullmq

// Every call of the public API, for tests that make all of them on a server that replies anything.

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisstore"
	"github.com/17a2ac88/bullmq-go/internal/testkit/fakeredis"
)

type publicCall struct {
	name     string
	isPublic bool
	call     func(ctx context.Context, q *Queue, w *Worker, p *FlowProducer) error
}

// publicCalls holds the methods that take a context and return an error, generic functions, and the reads
// of the package's own loops.
var publicCalls = append(publicMethods(), []publicCall{
	{"Children", true, func(ctx context.Context, q *Queue, _ *Worker, _ *FlowProducer) error {
		_, err := Children[int](ctx, q.JobRef("1"))
		return err
	}},
	{"ChildValue", true, func(ctx context.Context, q *Queue, _ *Worker, _ *FlowProducer) error {
		_, err := ChildValue[map[string]any](ctx, q.JobRef("1"))
		return err
	}},
	{"the end of a job that is missing", false, func(ctx context.Context, q *Queue, _ *Worker, _ *FlowProducer) error {
		_, err := q.endOfMissing(ctx, &reader{tail: q.results, id: "1"}, make(chan Event))
		return err
	}},
	{"the marker", false, func(ctx context.Context, q *Queue, _ *Worker, _ *FlowProducer) error {
		return redisstore.ReadWake(q.core.client.Do(ctx, q.core.client.B().Bzpopmin().Key("m").Timeout(1).Build())).Err
	}},
	{"the events", false, func(ctx context.Context, q *Queue, _ *Worker, _ *FlowProducer) (err error) {
		closed, closeAll := context.WithCancel(ctx)
		defer closeAll()
		e := &QueueEvents{core: q.core, o: QueueEventsOptions{BlockingTimeout: time.Second}, last: "0-0", closed: closed, close: closeAll,
			stream: q.core.newEventStream()}
		defer e.stream.Close()
		for range 3 {
			if _, err = e.read(ctx); err != nil {
				break
			}
		}
		return err
	}},
}...)

// withoutEnd are the methods that wait for something other than the reply to a command.
var withoutEnd = []string{"Worker.Run", "Worker.Pause", "Worker.PauseNow", "Worker.Shutdown", "Job.Wait", "Queue.WaitForJob"}

func publicMethods() (calls []publicCall) {
	receivers := []struct {
		kind reflect.Type
		of   func(q *Queue, w *Worker, p *FlowProducer) any
	}{
		{reflect.TypeFor[*Queue](), func(q *Queue, _ *Worker, _ *FlowProducer) any { return q }},
		{reflect.TypeFor[*Worker](), func(_ *Queue, w *Worker, _ *FlowProducer) any { return w }},
		{reflect.TypeFor[*Fetcher](), func(_ *Queue, w *Worker, _ *FlowProducer) any { return &Fetcher{w: w, token: w.token} }},
		{reflect.TypeFor[*FlowProducer](), func(_ *Queue, _ *Worker, p *FlowProducer) any { return p }},
		{reflect.TypeFor[*Job](), func(q *Queue, _ *Worker, _ *FlowProducer) any {
			return &Job{ID: "1", token: "t", DeduplicationID: "d", ParentKey: "bull:fuzzed:2", core: q.core}
		}},
	}
	for _, receiver := range receivers {
		for i := range receiver.kind.NumMethod() {
			method := receiver.kind.Method(i)
			name, takes := receiver.kind.Elem().Name()+"."+method.Name, method.Type
			if takes.NumIn() < 2 || takes.In(1) != reflect.TypeFor[context.Context]() || slices.Contains(withoutEnd, name) ||
				takes.NumOut() == 0 || takes.Out(takes.NumOut()-1) != reflect.TypeFor[error]() {
				continue
			}
			calls = append(calls, publicCall{name, true, func(ctx context.Context, q *Queue, w *Worker, p *FlowProducer) error {
				arguments := []reflect.Value{reflect.ValueOf(receiver.of(q, w, p)), reflect.ValueOf(ctx)}
				for n := 2; n < takes.NumIn(); n++ {
					if takes.IsVariadic() && n == takes.NumIn()-1 {
						break
					}
					arguments = append(arguments, argument(takes.In(n), q))
				}
				results := method.Func.Call(arguments)
				err, _ := results[len(results)-1].Interface().(error)
				return err
			}})
		}
	}
	return calls
}

// argument returns a value of a type that the calls accept.
func argument(kind reflect.Type, q *Queue) reflect.Value {
	for _, value := range []any{
		"1", 5, true, time.Minute, time.Now(), StateCompleted, AllEntries(), q.JobRef("1").WithToken("t"), []*Job{q.JobRef("1").WithToken("t")}, []string{"1"},
		make([]BulkJob, 3), Repeat{Every: time.Minute}, Limiter{Max: 1, Duration: time.Second}, map[string]string{"a": "b"},
		Flow{Name: "a", QueueName: "fuzzed", Children: []Flow{{Name: "b", QueueName: "fuzzed"}}}, []Flow{{Name: "a", QueueName: "fuzzed"}, {Name: "b", QueueName: "fuzzed"}},
		FlowQuery{QueueName: "fuzzed", ID: "1", Depth: 4}, DependencyQuery{&DependencyCursor{}, &DependencyCursor{}, &DependencyCursor{}, &DependencyCursor{}}, EventType("mine"),
	} {
		if reflect.TypeOf(value) == kind {
			return reflect.ValueOf(value)
		}
	}
	if kind == reflect.TypeFor[error]() {
		return reflect.ValueOf(errors.New("boom"))
	}
	return reflect.Zero(kind)
}

// onAnyServer returns a queue, a worker and a producer on a server that replies anything.
func onAnyServer() (server *fakeredis.Server, q *Queue, w *Worker, p *FlowProducer, closeAll func(), err error) {
	server = &fakeredis.Server{}
	link := Options(server.Option())
	server.Script(fakeredis.Encode("redis_version:7.0.15\n", 1, 1, "redis_version:7.0.15\n", "redis_version:7.0.15\n"))
	if q, err = NewQueue(context.Background(), "fuzzed", &QueueOptions{Connection: link, Dialect: V6}); err != nil {
		return
	}
	if w, err = NewWorker(context.Background(), "fuzzed", func(context.Context, *Job) (any, error) { return nil, nil }, &WorkerOptions{Connection: link, Dialect: V6}); err != nil {
		return
	}
	p, err = NewFlowProducer(context.Background(), &FlowProducerOptions{Connection: link, Dialect: V6})
	return server, q, w, p, func() {
		_ = q.Close()
		_ = w.Close()
		_ = p.Close()
	}, err
}
