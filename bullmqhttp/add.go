package bullmqhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// adder adds the jobs of one name, and replies to the requests that add them.
type adder struct {
	server *Server
	name   string
	typed  bool          // the jobs are those of Post
	wait   time.Duration // of a request that prefers none

	queued    []string // the body of 202: the texts around the id of the job
	scheduled []string // the same for a job with a delay
}

// register makes the adder of a name that no other route of the Server has.
func (s *Server) register(name string, typed bool, wait time.Duration) adder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.names[name]; exists {
		panic(fmt.Sprintf("bullmqhttp: route %q exists already", name))
	}
	s.names[name] = typed
	if typed {
		s.typed.Store(true)
	}
	a := adder{server: s, name: name, typed: typed, wait: wait}
	a.queued, a.scheduled = a.accepted(Queued), a.accepted(Scheduled)
	return a
}

// isTyped reports whether jobs with the name are those of [Post].
func (s *Server) isTyped(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

// newJob is a job that a request adds.
type newJob struct {
	data    json.RawMessage
	options bullmq.JobOptions // with the id
	owner   string
	digest  string // of the request
	keyed   bool   // the id is that of an Idempotency-Key
	chosen  bool   // the id is that of the function of Post
}

// repeatable reports whether a repeated request has the same id.
func (job *newJob) repeatable() bool { return job.keyed || job.chosen }

// submitted is the outcome of a submit.
type submitted struct {
	id        string
	replayed  bool // an earlier request has added the job
	scheduled bool // a job that was added has a delay
}

// serve adds the job and replies. known reports that the job exists already.
func (a *adder) serve(w http.ResponseWriter, r *http.Request, job *newJob, known bool) error {
	s, id := a.server, job.options.JobID
	s.hold(w, r, 0)
	result, err := submitted{id: id, replayed: true}, error(nil)
	if known {
		if err = a.compare(r.Context(), id, job, bullmq.AlreadyExists); errors.Is(err, bullmq.ErrJobNotFound) {
			err = beingRemoved()
		}
	} else {
		result, err = a.submit(r.Context(), job)
	}
	if err != nil {
		var p *Problem
		if errors.As(err, &p) && p.Code == CodeMaybeAdded {
			w.Header().Set("Location", s.address(id))
		}
		return err
	}
	if result.replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return a.answer(w, r, target{result.id, job.owner}, result)
}

// submit adds the job, or finds the one that an earlier request has added.
func (a *adder) submit(ctx context.Context, job *newJob) (submitted, error) {
	s, id := a.server, job.options.JobID
	if tooMany := s.checkLoad(ctx); tooMany != nil {
		if job.repeatable() { // an earlier request does not add to the load
			if err := a.compare(ctx, id, job, bullmq.AlreadyExists); !errors.Is(err, bullmq.ErrJobNotFound) {
				return submitted{id: id, replayed: true}, err
			}
		}
		return submitted{}, tooMany
	}
	for range 3 {
		added, lost, err := a.add(ctx, job)
		if err != nil {
			return submitted{}, err
		}
		if added.outcome == bullmq.Added || added.outcome == bullmq.AlreadyExists && !job.repeatable() {
			s.load.added()
			return submitted{id: added.id, scheduled: added.scheduled}, nil
		}
		err = a.compare(ctx, added.id, job, added.outcome)
		if lost && err != nil && !errors.As(err, new(*Problem)) && !errors.Is(err, bullmq.ErrJobNotFound) {
			err = a.maybeAdded(ctx, id, err)
		}
		if !errors.Is(err, bullmq.ErrJobNotFound) {
			return submitted{id: added.id, replayed: err == nil && (!lost || added.outcome == bullmq.Deduplicated)}, err
		}
		// The job was removed meanwhile, so the key is free.
	}
	return submitted{}, beingRemoved()
}

func beingRemoved() *Problem {
	return problem(http.StatusServiceUnavailable, CodeUnavailable, "the job of an earlier request is being removed; try again").after(time.Second)
}

// checkLoad returns a problem if too many jobs wait.
func (s *Server) checkLoad(ctx context.Context) error {
	if s.o.MaxWaiting == 0 {
		return nil
	}
	waiting, err := s.load.waiting(ctx)
	if err != nil {
		return err
	}
	if waiting >= s.o.MaxWaiting {
		return problem(http.StatusTooManyRequests, CodeTooManyWaiting, "too many jobs are waiting; try again later").after(s.load.pause(ctx))
	}
	return nil
}

// resolvePause is the pause between two attempts to find out whether a job was added.
const resolvePause = 100 * time.Millisecond

// addition is the outcome of an add.
type addition struct {
	id        string
	outcome   bullmq.AddOutcome
	scheduled bool // the job has a delay
}

// add adds the job. If the reply is lost, it adds the job again under the same id, which has no effect
// if the first attempt has added it: the job can't have been removed yet, as it is kept for at
// least a minute. A client that leaves does not end the add.
//
// lost reports that the reply of the first attempt was lost, so a job that exists already may be this one.
func (a *adder) add(ctx context.Context, job *newJob) (added addition, lost bool, err error) {
	s, id := a.server, job.options.JobID
	ctx = context.WithoutCancel(ctx)
	added, err = a.addOnce(ctx, job, s.o.Timeout)
	if !errors.Is(err, bullmq.ErrMaybeAdded) {
		return added, false, err
	}
	for deadline := time.Now().Add(s.o.Timeout); time.Now().Before(deadline); {
		select {
		case <-time.After(resolvePause):
		case <-s.closed.Done():
			deadline = time.Time{}
		}
		if added, err := a.addOnce(ctx, job, max(time.Until(deadline), resolvePause)); err == nil {
			return added, true, nil
		}
		if s.exists(ctx, id, max(time.Until(deadline), resolvePause)) { // Redis may be full, or a replica
			return addition{id: id, outcome: bullmq.AlreadyExists}, true, nil
		}
	}
	return addition{}, true, a.maybeAdded(ctx, id, err)
}

// addOnce makes one attempt to add the job.
func (a *adder) addOnce(ctx context.Context, job *newJob, limit time.Duration) (addition, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, id, o := a.server, job.options.JobID, job.options
	added, err := s.queue.Add(ctx, a.name, job.data, &o)
	var large *bullmq.SizeLimitError
	switch {
	case errors.As(err, &large): // in the route, the defaults of the queue, or its middleware
		return addition{}, problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the request has %d bytes as JSON; the limit is %d", large.Size, large.Limit)
	case err != nil && a.typed && !errors.Is(err, bullmq.ErrMaybeAdded):
		return addition{}, refusedAdd(ctx, id, job.chosen, err)
	case err != nil:
		return addition{}, err
	}
	outcome := added.AddOutcome()
	if added.ID != id && !(a.typed && outcome == bullmq.Deduplicated) || added.QueueName() != s.queue.Name() {
		return addition{}, s.broken(ctx, a.name, fmt.Errorf("the options, the middleware or the default options of queue %s replaced job %s by %s of queue %s", s.queue.Name(), id, added.ID, added.QueueName()))
	}
	return addition{added.ID, outcome, added.Delay > 0}, nil
}

// exists reports whether there is a job.
func (s *Server) exists(ctx context.Context, id string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := s.queue.Job(ctx, id)
	return err == nil
}

// maybeAdded is the reply if it is unknown whether a job was added.
func (a *adder) maybeAdded(ctx context.Context, id string, err error) *Problem {
	a.server.o.Logger.ErrorContext(ctx, "it is unknown whether a job was added", "job", id, "route", a.name, "error", err)
	return problem(http.StatusServiceUnavailable, CodeMaybeAdded,
		"the reply of Redis was lost; look for the job at Location; repeat the request only if it has an Idempotency-Key, or names the id of the job itself").about(id).after(outagePause)
}

// compare returns an error unless an existing job is that of the same request. With the outcome
// Deduplicated, it may be that of another request of the same owner.
func (a *adder) compare(ctx context.Context, id string, job *newJob, outcome bullmq.AddOutcome) error {
	var found *bullmq.Job
	err := a.server.inTime(ctx, func(ctx context.Context) (err error) {
		found, err = a.server.queue.Job(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	owner, digest, known := a.server.origin(found)
	same := known && found.Name == a.name && owner == job.owner && (digest == job.digest || outcome == bullmq.Deduplicated)
	switch {
	case same:
		return nil
	case outcome == bullmq.Deduplicated:
		return problem(http.StatusConflict, CodeJobExists, "another job has the deduplication id")
	case job.chosen:
		return conflict(CodeJobExists, id, "another request has added a job with this id")
	default:
		return problem(http.StatusUnprocessableEntity, CodeKeyReused, "another request has used the Idempotency-Key").about(id)
	}
}

// answer replies to a request whose job is added: by its result, or by 202.
func (a *adder) answer(w http.ResponseWriter, r *http.Request, t target, result submitted) error {
	s, prefer := a.server, preferencesOf(r)
	w.Header().Add("Vary", "Prefer")
	wait := a.wait
	if prefer.hasWait {
		wait = prefer.wait
	} else if prefer.respondAsync {
		wait = 0
	}
	wait, leave := s.enterWait(min(wait, s.o.MaxWait))
	defer leave()
	if wait > 0 {
		s.hold(w, r, wait)
		if s.untilEnd(r, t.id, wait) {
			if job, state, err := s.finished(r.Context(), t); err == nil {
				if prefer.hasWait {
					applyWait(w.Header(), wait)
				}
				w.Header().Set("Content-Location", s.address(t.id)+"/result")
				return s.sendResult(w, r, job, state)
			}
		}
	}
	w.Header().Set("Location", s.address(t.id))
	if prefer.respondAsync {
		apply(w.Header(), "respond-async")
	}
	if prefer.hasWait && (wait > 0 || prefer.wait == 0) {
		applyWait(w.Header(), wait)
	}
	setRetryAfter(w.Header(), s.load.pause(r.Context()))
	if result.replayed || wait > 0 {
		if job, state, err := s.read(r.Context(), t); err == nil {
			reply(w, http.StatusAccepted, mediaJSON, s.status(job, state))
			return nil
		}
	}
	around, state := a.queued, Queued
	if result.scheduled {
		around, state = a.scheduled, Scheduled
	}
	if isID(t.id) {
		replyText(w, http.StatusAccepted, mediaJSON, []byte(strings.Join(around, t.id)))
	} else {
		reply(w, http.StatusAccepted, mediaJSON, Status{ID: t.id, State: state, Route: a.name, Links: s.links(t.id)})
	}
	return nil
}

// accepted returns the body of 202 for a job in a state: the texts around its id.
func (a *adder) accepted(state State) []string {
	id := newID() // which no other text contains
	text, _ := marshal(Status{ID: id, State: state, Route: a.name, Links: a.server.links(id)})
	return strings.Split(string(text), id)
}
