package bullmq

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
)

// listFeed is a feed of jobs that it has from the start. Those in first are fetched, those
// in then are found by calls that end jobs.
type listFeed struct {
	r     *runner
	first []found

	mu   sync.Mutex
	then []found
}

func (f *listFeed) start(r *runner) { f.r = r }
func (f *listFeed) markDirty()      {}
func (f *listFeed) signal()         {}
func (f *listFeed) interrupt()      {}
func (f *listFeed) close()          {}

func (f *listFeed) fetch() bool {
	for _, next := range f.first {
		f.r.slots.reserve(1)
		f.r.slots.settle(true)
		go f.r.slot(f.take(next, time.Now()))
	}
	<-f.r.soft.Done()
	return true
}

func (f *listFeed) mayFetch() bool { return true }

func (f *listFeed) finish(_ context.Context, end backend.End, _ bool) (found, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !end.Fetch || len(f.then) == 0 {
		return found{}, nil
	}
	next := f.then[0]
	f.then = f.then[1:]
	return next, nil
}

func (f *listFeed) delay(context.Context, backend.Delay) (found, error) {
	return found{}, errors.ErrUnsupported
}

func (f *listFeed) take(next found, begun time.Time) handover {
	job := next.w.core.newJob(next.Job)
	job.token = next.token
	return handover{next.w, job, begun}
}

func (f *listFeed) ended(string)                  {}
func (f *listFeed) setRateLimit(time.Duration)    {}
func (f *listFeed) stopFetchingFor(time.Duration) {}

// closable is a connection that is only closed.
type closable struct{ backend.Connection }

func (closable) Close() {}

var _ = Describe("A host of several queues", func() {
	var (
		h    *host
		f    *listFeed
		o    WorkerOptions
		runs chan string // queue and id of each job that a handler runs
	)
	BeforeEach(func() {
		o = WorkerOptions{}
		Expect(o.fill()).To(Succeed())
		h, f, runs = &host{}, &listFeed{}, make(chan string, 10)
	})
	// queue adds a queue whose handler first runs the given function.
	queue := func(name string, handler Handler) *queueWorker {
		k, err := newKeys("", name)
		Expect(err).NotTo(HaveOccurred())
		c := &core{keys: k, conn: closable{}, now: time.Now, log: slog.New(slog.DiscardHandler), jobs: &sync.Mutex{}}
		if h.home == nil {
			h.init(c, &o)
		}
		w := &queueWorker{}
		w.init(h, c, o)
		w.source = f
		w.handler = func(ctx context.Context, job *Job) (any, error) {
			runs <- job.QueueName() + " " + job.ID
			return handler(ctx, job)
		}
		return w
	}
	job := func(w *queueWorker, id string) found {
		return found{w: w, Fetched: backend.Fetched{Job: &backend.JobRecord{ID: id, Opts: "{}"}}, token: "t"}
	}
	run := func() (stop context.CancelFunc, ended <-chan error) {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- h.run(ctx, f, func(context.Context) ([]*safe.Background, func(time.Time)) {
				return nil, func(time.Time) {}
			})
		}()
		DeferCleanup(stop)
		return stop, done
	}
	untilCancelled := func(ctx context.Context, _ *Job) (any, error) {
		<-ctx.Done()
		return nil, nil
	}

	It("runs the job that the end of another queue's job has found, with the handler of its queue", func() {
		done := func(context.Context, *Job) (any, error) { return nil, nil }
		paint, print := queue("paint", done), queue("print", done)
		f.first, f.then = []found{job(paint, "1")}, []found{job(print, "1"), job(paint, "2")}
		stop, ended := run()
		for _, one := range []string{"paint 1", "print 1", "paint 2"} {
			Eventually(runs).Should(Receive(Equal(one)))
		}
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("cancels the job with an id in the queue that is meant only", func() {
		paint, print := queue("paint", untilCancelled), queue("print", untilCancelled)
		f.first = []found{job(paint, "1"), job(print, "1")}
		stop, ended := run()
		Eventually(runs).Should(HaveLen(2))
		Expect(paint.CancelJob("1", "")).To(BeTrue())
		Eventually(func() bool { return paint.runs("1") }).Should(BeFalse())
		Expect(print.runs("1")).To(BeTrue())
		Expect(h.CancelAllJobs("")).To(Equal(1))
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	})

	It("lists the unfinished jobs of each queue when it stops", func() {
		o.ShutdownTimeout = 50 * time.Millisecond
		release := make(chan struct{})
		defer close(release)
		ignore := func(context.Context, *Job) (any, error) { <-release; return nil, nil }
		paint, print := queue("paint", ignore), queue("print", ignore)
		f.first = []found{job(print, "1"), job(print, "2"), job(paint, "1")}
		h.slots.resize(3)
		stop, ended := run()
		Eventually(runs).Should(HaveLen(3))
		stop()
		var err error
		Eventually(ended).Should(Receive(&err))
		joined, ok := err.(interface{ Unwrap() []error })
		Expect(ok).To(BeTrue())
		Expect(joined.Unwrap()).To(Equal([]error{
			&UnfinishedError{QueueName: "paint", JobIDs: []string{"1"}},
			&UnfinishedError{QueueName: "print", JobIDs: []string{"1", "2"}},
		}))
	})
})
