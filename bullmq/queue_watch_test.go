package bullmq_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("Queue.WatchJob", func() {
	var (
		name  string
		queue *bullmq.Queue
		ctx   context.Context
	)
	BeforeEach(func() {
		name, ctx = newQueueName(), specContext()
		queue = newQueue(name, nil)
	})
	add := func(options *bullmq.JobOptions) *bullmq.Job {
		GinkgoHelper()
		job, err := queue.Add(ctx, "paint", nil, options)
		Expect(err).NotTo(HaveOccurred())
		return job
	}
	type watched struct {
		events chan bullmq.Event
		err    chan error // nil at the end of a loop without an error
	}
	// watch starts a loop and returns once it has yielded the present state.
	watch := func(ctx context.Context, queue *bullmq.Queue, id string) (bullmq.Event, watched) {
		GinkgoHelper()
		w := watched{make(chan bullmq.Event, 10000), make(chan error, 1)}
		go func() {
			for event, err := range queue.WatchJob(ctx, id) {
				if err != nil {
					w.err <- err
					return
				}
				w.events <- event
			}
			w.err <- nil
		}()
		var first bullmq.Event
		Eventually(w.events).Should(Receive(&first))
		return first, w
	}
	types := func(w watched) (all []bullmq.EventType) {
		for {
			select {
			case event := <-w.events:
				all = append(all, event.Type)
			default:
				return all
			}
		}
	}
	finish := func(value any) {
		GinkgoHelper()
		fetcher := newFetcher(name, nil)
		endJob(fetcher, takeJob(fetcher), value, nil)
	}

	It("yields the present state and then each event once and in order, across a retry, until the job has completed", func() {
		job := add(&bullmq.JobOptions{Attempts: 2, Backoff: bullmq.FixedBackoff(time.Millisecond)})
		add(nil)
		first, w := watch(ctx, queue, job.ID)
		Expect(first).To(Equal(bullmq.Event{Type: bullmq.EventWaiting, JobID: job.ID, Name: "paint"}))
		Expect(first.Time()).To(BeZero())
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			if err := job.UpdateProgress(ctx, job.AttemptsStarted); err != nil {
				return nil, err
			}
			if job.AttemptsMade == 0 {
				return nil, errors.New("not yet")
			}
			return "done", nil
		}, nil)
		var all []bullmq.Event
		Eventually(w.err).Should(Receive(BeNil()))
		close(w.events)
		for event := range w.events {
			Expect(event.JobID).To(Equal(job.ID))
			all = append(all, event)
		}
		var seen []bullmq.EventType
		for _, event := range all {
			seen = append(seen, event.Type)
		}
		Expect(seen).To(Equal([]bullmq.EventType{
			bullmq.EventActive, bullmq.EventProgress, bullmq.EventDelayed, bullmq.EventWaiting, bullmq.EventActive, bullmq.EventProgress, bullmq.EventCompleted,
		}))
		Expect(all[1].Progress).To(MatchJSON(`1`))
		Expect(all[6].ReturnValue).To(MatchJSON(`"done"`))
		Expect(all[6].ID).NotTo(BeEmpty())
	})

	It("yields no event that the present state includes", func() {
		job := add(nil)
		Expect(queue.UpdateJobProgress(ctx, job.ID, 0)).To(Succeed())
		updating, stop := context.WithCancel(ctx)
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for step := 1; updating.Err() == nil; step++ {
				_ = queue.UpdateJobProgress(ctx, job.ID, step)
			}
		}()
		for range 200 {
			var progress []int
			for event, err := range queue.WatchJob(ctx, job.ID) {
				Expect(err).NotTo(HaveOccurred())
				step, err := strconv.Atoi(string(event.Progress))
				Expect(err).NotTo(HaveOccurred())
				if progress = append(progress, step); len(progress) == 2 {
					break
				}
			}
			Expect(progress[1]).To(Equal(progress[0] + 1))
		}
		stop()
		<-ended
	})

	It("misses no event before the end if it learns of the end from the state of the job", func() {
		queue.PollResultsEvery(time.Microsecond) // so that a read often sees the end before its event has come
		var all []watched
		for range 50 {
			_, w := watch(ctx, queue, add(nil).ID)
			all = append(all, w)
		}
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			return nil, errors.Join(job.UpdateProgress(ctx, 1), job.UpdateProgress(ctx, 2))
		}, &bullmq.WorkerOptions{Concurrency: 10})
		for _, w := range all {
			Eventually(w.err, "10s").Should(Receive(BeNil()))
			Expect(types(w)).To(Equal([]bullmq.EventType{bullmq.EventActive, bullmq.EventProgress, bullmq.EventProgress, bullmq.EventCompleted}))
		}
	})

	It("misses no event before the end if the events come later than the state of the job", func() {
		proxy, link := proxiedRedis()
		through := newQueue(name, &bullmq.QueueOptions{Connection: link})
		through.PollResultsEvery(time.Microsecond)
		job := add(nil)
		var all []watched
		for range 5 {
			_, w := watch(ctx, through, job.ID)
			all = append(all, w)
		}
		Eventually(clientList).Should(ContainSubstring("cmd=xread")) // opening the connection takes many round trips
		Expect(proxy.Set(faultproxy.Faults{Delay: 300 * time.Millisecond})).To(Succeed())
		runWorker(name, func(ctx context.Context, job *bullmq.Job) (any, error) {
			for n := range 5 {
				if err := job.UpdateProgress(ctx, n); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}, nil)
		progress := bullmq.EventProgress
		for _, w := range all {
			Eventually(w.err, "15s").Should(Receive(BeNil()))
			Expect(types(w)).To(Equal([]bullmq.EventType{bullmq.EventActive, progress, progress, progress, progress, progress, bullmq.EventCompleted}))
		}
	})

	It("yields the end of a job that has already finished, even if the job is no longer there", func() {
		for _, options := range []*bullmq.JobOptions{nil, {KeepCompleted: bullmq.KeepNone()}} {
			job := add(options)
			finish("done")
			first, w := watch(ctx, queue, job.ID)
			Expect(first).To(And(HaveField("Type", bullmq.EventCompleted), HaveField("JobID", job.ID)))
			Expect(first.ReturnValue).To(MatchJSON(`"done"`))
			Eventually(w.err).Should(Receive(BeNil()))
			Expect(types(w)).To(BeEmpty())
		}
	})

	It("yields the reason of a failure", func() {
		job := add(nil)
		_, w := watch(ctx, queue, job.ID)
		fetcher := newFetcher(name, nil)
		endJob(fetcher, takeJob(fetcher), nil, errors.New("broken"))
		Eventually(w.err).Should(Receive(BeNil()))
		var last bullmq.Event
		for len(w.events) > 0 {
			last = <-w.events
		}
		Expect(last).To(And(HaveField("Type", bullmq.EventFailed), HaveField("FailedReason", "broken")))
		first, _ := watch(ctx, queue, job.ID)
		Expect(first).To(And(HaveField("Type", bullmq.EventFailed), HaveField("FailedReason", "broken"), HaveField("ID", "")))
	})

	It("ends when the job is removed, with an event of the stream or without one", func() {
		removed, drained := add(nil), add(nil)
		queue.PollResultsEvery(50 * time.Millisecond)
		_, w := watch(ctx, queue, removed.ID)
		_, other := watch(ctx, queue, drained.ID)
		Expect(queue.Remove(ctx, removed.ID, nil)).To(Succeed())
		Eventually(w.err).Should(Receive(BeNil()))
		Expect(types(w)).To(Equal([]bullmq.EventType{bullmq.EventRemoved}))
		Expect(queue.Drain(ctx, nil)).To(Succeed())
		Eventually(other.err).Should(Receive(BeNil()))
		Expect(types(other)).To(Equal([]bullmq.EventType{bullmq.EventRemoved}))
	})

	It("yields ErrJobNotFound for a job that does not exist, and ErrClosed if the Queue is closed", func() {
		for _, err := range queue.WatchJob(ctx, "unknown") {
			Expect(err).To(MatchError(bullmq.ErrJobNotFound))
		}
		_, w := watch(ctx, queue, add(nil).ID)
		Expect(queue.Close()).To(Succeed())
		Eventually(w.err).Should(Receive(MatchError(bullmq.ErrClosed)))
		for _, err := range queue.WatchJob(ctx, "1") {
			Expect(err).To(MatchError(bullmq.ErrClosed))
		}
	})

	It("ends without an error when its context ends", func() {
		ctx, cancel := context.WithCancel(ctx)
		_, w := watch(ctx, queue, add(nil).ID)
		cancel()
		Eventually(w.err).Should(Receive(BeNil()))
	})

	It("shares one connection among many watches and waits", func() {
		job := add(nil)
		var all []watched
		for range 50 {
			_, w := watch(ctx, queue, job.ID)
			all = append(all, w)
		}
		waited := make(chan error, 1)
		go func() { _, err := queue.WaitForJob(ctx, job.ID); waited <- err }()
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		Expect(strings.Count(clientList(), "cmd=xread")).To(Equal(1))
		finish("done")
		for _, w := range all {
			Eventually(w.err).Should(Receive(BeNil()))
			Expect(types(w)).To(Equal([]bullmq.EventType{bullmq.EventActive, bullmq.EventCompleted}))
		}
		Eventually(waited).Should(Receive(BeNil()))
	})

	It("yields first an event whose type has the name of the job's state, and waiting for a prioritized job", func() {
		states := map[string]bullmq.State{} // by job id
		flows := newFlows(bullmq.FlowProducerOptions{Connection: connection()})
		flow, err := flows.Add(ctx, bullmq.Flow{Name: "paint", QueueName: name, Children: []bullmq.Flow{{Name: "paint", QueueName: name + "-other"}}})
		Expect(err).NotTo(HaveOccurred())
		states[flow.Job.ID] = bullmq.StateWaitingChildren
		states[add(&bullmq.JobOptions{Delay: time.Hour}).ID] = bullmq.StateDelayed
		fetcher := newFetcher(name, nil)
		for _, end := range []bullmq.State{bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateActive} {
			states[add(nil).ID] = end
			taken := takeJob(fetcher)
			switch end {
			case bullmq.StateCompleted:
				endJob(fetcher, taken, "done", nil)
			case bullmq.StateFailed:
				endJob(fetcher, taken, nil, errors.New("no"))
			}
		}
		states[add(nil).ID] = bullmq.StateWaiting
		prioritized := add(&bullmq.JobOptions{Priority: 3})
		for id, state := range states {
			Expect(stateOf(queue, id)()).To(Equal(state))
			first, _ := watch(ctx, queue, id)
			Expect(bullmq.State(first.Type)).To(Equal(state))
		}
		first, _ := watch(ctx, queue, prioritized.ID)
		Expect(first.Type).To(Equal(bullmq.EventWaiting))
	})

	It("yields the present state again to a loop that was too slow, and misses no end", Label("slow"), func() {
		job := add(nil)
		release := make(chan struct{})
		w := watched{make(chan bullmq.Event, 10000), make(chan error, 1)}
		go func() {
			for event, err := range queue.WatchJob(ctx, job.ID) {
				if err != nil {
					w.err <- err
					return
				}
				w.events <- event
				<-release
			}
			w.err <- nil
		}()
		Eventually(w.events).Should(Receive())
		for i := range 1500 {
			Expect(job.UpdateProgress(ctx, i)).To(Succeed())
		}
		_, quick := watch(ctx, queue, job.ID)
		Expect(job.UpdateProgress(ctx, "last")).To(Succeed())
		Eventually(quick.events).Should(Receive())
		close(release)
		Eventually(func() bool {
			for {
				select {
				case event := <-w.events:
					if event.Type == bullmq.EventWaiting && event.ID == "" && string(event.Progress) == `"last"` {
						return true
					}
				default:
					return false
				}
			}
		}, "20s").Should(BeTrue())
		finish("done")
		Eventually(w.err).Should(Receive(BeNil()))
	})

	DescribeTable("continues after an outage in which", Label("slow"), func(meanwhile func(job *bullmq.Job), last bullmq.EventType) {
		proxy, link := proxiedRedis()
		through := newQueue(name, &bullmq.QueueOptions{Connection: link})
		job := add(nil)
		_, w := watch(ctx, through, job.ID)
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		refused(proxy)
		meanwhile(job)
		Consistently(w.err, "100ms").ShouldNot(Receive())
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		if last == "" {
			finish("done")
			last = bullmq.EventCompleted
		}
		Eventually(w.err, "15s").Should(Receive(BeNil()))
		all := types(w)
		Expect(all[len(all)-1]).To(Equal(last))
	},
		Entry("nothing happened", func(*bullmq.Job) {}, bullmq.EventType("")),
		Entry("the job completed", func(*bullmq.Job) { finish("done") }, bullmq.EventCompleted),
		Entry("the job completed and the stream was trimmed", func(*bullmq.Job) {
			finish("done")
			_, err := queue.TrimEvents(ctx, 0)
			Expect(err).NotTo(HaveOccurred())
		}, bullmq.EventCompleted),
		Entry("the job was removed and the stream was trimmed", func(job *bullmq.Job) {
			Expect(queue.Remove(ctx, job.ID, nil)).To(Succeed())
			_, err := queue.TrimEvents(ctx, 0)
			Expect(err).NotTo(HaveOccurred())
		}, bullmq.EventRemoved),
	)
})

var _ = Describe("Queue.WatchJobAfter", func() {
	collect := func(ctx context.Context, queue *bullmq.Queue, id, after string) (events []bullmq.Event, err error) {
		for event, err := range queue.WatchJobAfter(ctx, id, after) {
			if err != nil {
				return events, err
			}
			events = append(events, event)
		}
		return events, nil
	}

	It("yields the events after one that was seen, those before the call and those after it, each once", func() {
		ctx, name := specContext(), newQueueName()
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		update := func(progress int) {
			GinkgoHelper()
			Expect(queue.UpdateJobProgress(ctx, job.ID, progress)).To(Succeed())
		}
		update(0)
		fetcher := newFetcher(name, nil)
		taken := takeJob(fetcher)
		for step := range 5 {
			update(step + 1)
		}
		var all []bullmq.Event
		events := newEvents(name, bullmq.QueueEventsOptions{LastEventID: "0-0"})
		for event := range events.All(ctx) {
			if event.JobID == job.ID {
				all = append(all, event)
			}
			if string(event.Progress) == "5" {
				break
			}
		}
		Expect(events.Close()).To(Succeed())

		ended := make(chan []bullmq.Event, 1)
		go func() {
			defer GinkgoRecover()
			seen, err := collect(ctx, queue, job.ID, all[2].ID)
			Expect(err).NotTo(HaveOccurred())
			ended <- seen
		}()
		Eventually(clientList).Should(ContainSubstring("cmd=xread"))
		update(6)
		endJob(fetcher, taken, "done", nil)
		var seen []bullmq.Event
		Eventually(ended).Should(Receive(&seen))
		Expect(seen[:len(all)-3]).To(Equal(all[3:]))
		Expect(seen[len(all)-3:]).To(HaveLen(2))
		Expect(seen[len(seen)-2].Progress).To(MatchJSON("6"))
		Expect(seen[len(seen)-1].Type).To(Equal(bullmq.EventCompleted))

		Expect(collect(ctx, queue, job.ID, seen[len(seen)-2].ID)).To(Equal(seen[len(seen)-1:]))
		after, err := collect(ctx, queue, job.ID, seen[len(seen)-1].ID)
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal([]bullmq.Event{{Type: bullmq.EventCompleted, JobID: job.ID, Name: "paint", Progress: []byte("6"), ReturnValue: []byte(`"done"`)}}))
	})

	It("begins with the present state if the event is no longer in the stream", func() {
		ctx, name := specContext(), newQueueName()
		queue := newQueue(name, nil)
		job, err := queue.Add(ctx, "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		for _, after := range []string{"1-0", "99999999999999-0"} {
			watching, stop := context.WithCancel(ctx)
			for event, err := range queue.WatchJobAfter(watching, job.ID, after) {
				Expect(err).NotTo(HaveOccurred())
				Expect(event).To(Equal(bullmq.Event{Type: bullmq.EventWaiting, JobID: job.ID, Name: "paint"}))
				stop()
			}
			stop()
		}
	})

	It("refuses an id that no event has, and reports a job that does not exist", func() {
		ctx := specContext()
		queue := newQueue(newQueueName(), nil)
		_, err := collect(ctx, queue, "1", "$")
		Expect(err).To(MatchError(ContainSubstring("is not the id of an event")))
		_, err = collect(ctx, queue, "1", "1-0")
		Expect(err).To(MatchError(bullmq.ErrJobNotFound))
	})
})
