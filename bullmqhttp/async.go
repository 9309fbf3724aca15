package bullmqhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Route configures the requests of [Server.Async]. The zero value selects the defaults.
type Route struct {
	// Job has the options of the jobs, such as Attempts, Backoff and Delay. JobID, KeepCompleted,
	// KeepFailed, Deduplication, Target, Parent and Timestamp must not be set, nor their names or
	// those of a scheduler in Extra. The Server sets the first three. With the others it could not
	// find the job, or the job would not be what its status says. A request that exceeds SizeLimit as
	// JSON is refused with 413.
	// Defaults to one attempt.
	Job bullmq.JobOptions
	// Wait is how long a request waits for the response by default. A client that prefers
	// respond-async or another wait gets that.
	// Defaults to 0: the reply is 202 at once.
	Wait time.Duration
	// ContentTypes are the accepted types of bodies, such as "application/json". A body of another
	// type, or without one, is refused with 415.
	// Defaults to all.
	ContentTypes []string
	// MaxBody is the maximum size of a body, in bytes, also with Options.Bodies.
	// Defaults to Options.MaxBody.
	MaxBody int64
	// Headers are the names of headers that are stored in addition to those of Options.Headers.
	Headers []string
	// RequireKey refuses requests without an Idempotency-Key with 400.
	RequireKey bool
	// RawBody stores JSON as text, byte for byte. Otherwise it is stored as JSON without white space
	// between its tokens, so a signature of the body no longer fits.
	RawBody bool
}

// async is the handler of Server.Async.
type async struct {
	server  *Server
	name    string
	route   Route
	types   []string
	headers []string
	options bullmq.JobOptions // without the id

	patterns  sync.Map // names of wildcards, by pattern
	queued    []string // the body of 202: the texts around the id of the job
	scheduled []string // the same for a job with a delay
}

// Async returns a handler that adds each request to the queue as a job, with the name of the route as
// the job's name, and replies 202. A worker with [Serve] runs the request.
//
//   - Location is the address of the status. The body is a [Status]. Retry-After is when to ask for
//     it.
//   - With "Prefer: wait=10" the reply is the response of the handler if the job ends within 10
//     seconds, as GET of the result would return it.
//   - With an Idempotency-Key, a repeated request gets the same job. Another request with the
//     key is refused with 422. Keys of different routes and owners are independent. A key is
//     known as long as its job.
//
// If Redis can't be reached, the reply is 503, and nothing was added. If the reply of Redis is lost and
// the outcome can't be found out, it is 503 with [CodeMaybeAdded] and a Location, at which the job is
// found if it was added. A client with a key just repeats the request.
//
// Of the queue's DefaultJobOptions, jobs inherit all but those that Route.Job must not set. A SizeLimit
// among them has the same effect as in Route.Job.
//
// Async panics if the route is invalid or the name is taken.
func (s *Server) Async(name string, route Route) http.Handler {
	switch {
	case name == "":
		panic("bullmqhttp: the route has no name")
	case invalidOption(&route.Job) != "":
		panic(fmt.Sprintf("bullmqhttp: route %q: Job must not set %s", name, invalidOption(&route.Job)))
	case route.Wait < 0 || route.MaxBody < 0:
		panic(fmt.Sprintf("bullmqhttp: route %q: Wait %v or MaxBody %d is less than 0", name, route.Wait, route.MaxBody))
	}
	a := &async{server: s, name: name, route: route, headers: allowList(s.headers, route.Headers)}
	for _, accepted := range route.ContentTypes {
		media, _, err := mime.ParseMediaType(accepted)
		if err != nil {
			panic(fmt.Sprintf("bullmqhttp: route %q: ContentTypes: %q: %v", name, accepted, err))
		}
		a.types = append(a.types, media)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] {
		panic(fmt.Sprintf("bullmqhttp: route %q exists already", name))
	}
	s.names[name] = true
	a.options = s.jobOptions(route.Job)
	a.queued, a.scheduled = a.accepted(Queued), a.accepted(Scheduled)
	return a
}

// ServeHTTP implements [http.Handler].
func (a *async) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.serve(w, r); err != nil {
		a.server.send(w, r, err)
	}
}

func (a *async) serve(w http.ResponseWriter, r *http.Request) error {
	s := a.server
	owner, err := s.admit(r, ActionSubmit)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	switch {
	case err != nil:
		return err
	case key == "" && a.route.RequireKey:
		return problem(http.StatusBadRequest, CodeInvalidRequest, "the request needs an Idempotency-Key")
	case !s.queue.Health().Reachable:
		return problem(http.StatusServiceUnavailable, CodeUnavailable, "Redis can't be reached; try again later").after(outagePause)
	}
	id := newID()
	if key != "" {
		id = keyID(owner, a.name, key)
	}
	carried, err := a.carry(r)
	if err != nil {
		return err
	}
	stored, known, err := a.storeRequest(w, r, id, key != "")
	if err != nil {
		return err
	}
	stored.Owner, stored.Carry = owner, carried
	s.hold(w, r, 0)
	var result submitted
	if known {
		result, err = a.replay(r.Context(), id, stored)
	} else {
		result, err = a.submit(r.Context(), id, key != "", stored)
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
	return a.answer(w, r, target{id, owner}, result)
}

// carry returns the result of Options.Carry.
func (a *async) carry(r *http.Request) (json.RawMessage, error) {
	s := a.server
	if s.o.Carry == nil {
		return nil, nil
	}
	value, err := s.o.Carry(r)
	if err != nil {
		return nil, s.refused(r, err)
	}
	carried, err := marshal(value)
	if err != nil {
		return nil, s.broken(r.Context(), a.name, fmt.Errorf("the result of Options.Carry can't be written as JSON: %w", err))
	}
	return carried, nil
}

// submitted is the outcome of a submit.
type submitted struct {
	replayed  bool // an earlier request with the key has added the job
	scheduled bool // a job that was added has a delay
}

// replay finds the job that an earlier request with the key has added.
func (a *async) replay(ctx context.Context, id string, stored *Request) (submitted, error) {
	err := a.compare(ctx, id, stored)
	if errors.Is(err, bullmq.ErrJobNotFound) {
		err = beingRemoved()
	}
	return submitted{replayed: true}, err
}

// submit adds the job, or finds the one that an earlier request with the key has added.
func (a *async) submit(ctx context.Context, id string, keyed bool, stored *Request) (submitted, error) {
	s := a.server
	if tooMany := s.checkLoad(ctx); tooMany != nil {
		if keyed { // an earlier request does not add to the load
			if err := a.compare(ctx, id, stored); !errors.Is(err, bullmq.ErrJobNotFound) {
				return submitted{replayed: true}, err
			}
		}
		return submitted{}, tooMany
	}
	for range 3 {
		added, lost, err := s.add(ctx, a, id, stored)
		if err != nil {
			return submitted{}, err
		}
		if added.outcome == bullmq.Added || !keyed {
			s.load.added()
			return submitted{scheduled: added.scheduled}, nil
		}
		err = a.compare(ctx, id, stored)
		if lost && err != nil && !errors.As(err, new(*Problem)) && !errors.Is(err, bullmq.ErrJobNotFound) {
			err = s.maybeAdded(ctx, a, id, err)
		}
		if !errors.Is(err, bullmq.ErrJobNotFound) {
			return submitted{replayed: err == nil && !lost}, err
		}
		// The job was removed meanwhile, so the key is free.
	}
	return submitted{}, beingRemoved()
}

func beingRemoved() *Problem {
	return problem(http.StatusServiceUnavailable, CodeUnavailable, "the job of the Idempotency-Key is being removed; try again").after(time.Second)
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
	outcome   bullmq.AddOutcome
	scheduled bool // the job has a delay
}

// add adds the job. If the reply is lost, it adds the job again under the same id, which has no effect
// if the first attempt has added it: the job can't have been removed yet, as it is kept for at
// least a minute. A client that leaves does not end the add.
//
// lost reports that the reply of the first attempt was lost, so a job that exists already may be this one.
func (s *Server) add(ctx context.Context, a *async, id string, stored *Request) (added addition, lost bool, err error) {
	data, err := stored.encode()
	if err != nil {
		return addition{}, false, err
	}
	o := a.options
	o.JobID = id
	ctx = context.WithoutCancel(ctx)
	attempt := func(limit time.Duration) (addition, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		job, err := s.queue.Add(ctx, a.name, data, &o)
		var large *bullmq.SizeLimitError
		switch {
		case errors.As(err, &large): // in the route, the defaults of the queue, or its middleware
			return addition{}, problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the request has %d bytes as JSON; the limit is %d", large.Size, large.Limit)
		case err != nil:
			return addition{}, err
		case job.ID != id || job.QueueName() != s.queue.Name():
			return addition{}, s.broken(ctx, a.name, fmt.Errorf("the middleware or the default options of queue %s replaced job %s by %s of queue %s", s.queue.Name(), id, job.ID, job.QueueName()))
		}
		return addition{job.AddOutcome(), job.Delay > 0}, nil
	}
	added, err = attempt(s.o.Timeout)
	if !errors.Is(err, bullmq.ErrMaybeAdded) {
		return added, false, err
	}
	for deadline := time.Now().Add(s.o.Timeout); time.Now().Before(deadline); {
		select {
		case <-time.After(resolvePause):
		case <-s.closed.Done():
			deadline = time.Time{}
		}
		if added, err := attempt(max(time.Until(deadline), resolvePause)); err == nil {
			return added, true, nil
		}
		if s.exists(ctx, id, max(time.Until(deadline), resolvePause)) { // Redis may be full, or a replica
			return addition{outcome: bullmq.AlreadyExists}, true, nil
		}
	}
	return addition{}, true, s.maybeAdded(ctx, a, id, err)
}

// exists reports whether there is a job.
func (s *Server) exists(ctx context.Context, id string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := s.queue.Job(ctx, id)
	return err == nil
}

// maybeAdded is the reply if it is unknown whether a job was added.
func (s *Server) maybeAdded(ctx context.Context, a *async, id string, err error) *Problem {
	s.o.Logger.ErrorContext(ctx, "it is unknown whether a job was added", "job", id, "route", a.name, "error", err)
	return problem(http.StatusServiceUnavailable, CodeMaybeAdded,
		"the reply of Redis was lost; repeat the request with its Idempotency-Key, or look for the job at Location").about(id).after(outagePause)
}

// compare returns an error unless the job of an idempotency key is that of the same request.
func (a *async) compare(ctx context.Context, id string, stored *Request) error {
	var job *bullmq.Job
	err := a.server.inTime(ctx, func(ctx context.Context) (err error) {
		job, err = a.server.queue.Job(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	before, err := ReadRequest(job)
	if err != nil || before.Digest != stored.Digest {
		return problem(http.StatusUnprocessableEntity, CodeKeyReused, "another request has used the Idempotency-Key").about(id)
	}
	return nil
}

func (a *async) maxBody() int64 {
	if a.route.MaxBody > 0 {
		return a.route.MaxBody
	}
	return a.server.o.MaxBody
}

// checkType refuses a body whose media type the route does not accept.
func (a *async) checkType(media string, size int) error {
	if len(a.types) == 0 || size == 0 {
		return nil
	}
	if !slices.Contains(a.types, media) {
		return problem(http.StatusUnsupportedMediaType, CodeUnsupportedType, "the body must have one of the types %s", strings.Join(a.types, ", "))
	}
	return nil
}

// answer replies to a request whose job is added: by its response, or by 202.
func (a *async) answer(w http.ResponseWriter, r *http.Request, t target, result submitted) error {
	s, prefer := a.server, preferencesOf(r)
	w.Header().Add("Vary", "Prefer")
	wait := a.route.Wait
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
	around := a.queued
	if result.scheduled {
		around = a.scheduled
	}
	replyText(w, http.StatusAccepted, mediaJSON, []byte(strings.Join(around, t.id)))
	return nil
}

// accepted returns the body of 202 for a job in a state: the texts around its id.
func (a *async) accepted(state State) []string {
	id := newID() // which no other text contains
	text, _ := marshal(Status{ID: id, State: state, Route: a.name, Links: a.server.links(id)})
	return strings.Split(string(text), id)
}
