package bullmqhttp

import (
	"context"
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
	// KeepFailed, Parent, Target and Deduplication must not be set: the Server sets the first three,
	// and would not find the job with the others.
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
	// MaxBody is the maximum size of a body, in bytes.
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

	patterns sync.Map // names of wildcards, by pattern
	accepted []string // the body of 202: the texts around the id of the job
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
// Async panics if the route is invalid or the name is taken.
func (s *Server) Async(name string, route Route) http.Handler {
	o := route.Job
	switch {
	case name == "":
		panic("bullmqhttp: the route has no name")
	case o.JobID != "" || o.Parent != nil || o.Target != nil || o.Deduplication != nil ||
		o.KeepCompleted != (bullmq.Retention{}) || o.KeepFailed != (bullmq.Retention{}):
		panic(fmt.Sprintf("bullmqhttp: route %q: Job must not set JobID, KeepCompleted, KeepFailed, Parent, Target or Deduplication", name))
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
	a.options = route.Job
	a.options.KeepCompleted, a.options.KeepFailed = bullmq.KeepFor(s.o.KeepFor), bullmq.KeepFor(s.o.KeepFor)
	id := newID() // which no other text contains
	added := Status{ID: id, State: Queued, Route: name, Links: s.links(id)}
	if route.Job.Delay > 0 {
		added.State = Scheduled
	}
	text, _ := marshal(added)
	a.accepted = strings.Split(string(text), id)
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
	stored, err := a.storeRequest(w, r)
	if err != nil {
		return err
	}
	stored.Owner = owner
	if s.o.Carry != nil {
		carried, err := s.o.Carry(r)
		if err != nil {
			return s.refused(r, err)
		}
		if stored.Carry, err = marshal(carried); err != nil {
			s.o.Logger.ErrorContext(r.Context(), "the result of Carry can't be written as JSON", "route", a.name, "error", err)
			return internal()
		}
	}
	s.hold(w, r, 0)
	id := newID()
	if key != "" {
		id = keyID(owner, a.name, key)
	}
	replayed, err := a.submit(r.Context(), id, key != "", stored)
	if err != nil {
		var p *Problem
		if errors.As(err, &p) && p.Code == CodeMaybeAdded {
			w.Header().Set("Location", s.address(id))
		}
		return err
	}
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return a.answer(w, r, target{id, owner}, replayed)
}

// submit adds the job, or finds the one that an earlier request with the key has added.
func (a *async) submit(ctx context.Context, id string, keyed bool, stored *Request) (replayed bool, err error) {
	s := a.server
	if s.o.MaxWaiting > 0 {
		waiting, err := s.load.waiting(ctx)
		if err != nil {
			return false, err
		}
		if waiting >= s.o.MaxWaiting {
			if keyed { // an earlier request does not add to the load
				if err := a.compare(ctx, id, stored); !errors.Is(err, bullmq.ErrJobNotFound) {
					return err == nil, err
				}
			}
			return false, problem(http.StatusTooManyRequests, CodeTooManyWaiting, "too many jobs are waiting; try again later").after(s.load.pause(ctx))
		}
	}
	for range 3 {
		outcome, lost, err := s.add(ctx, a, id, stored)
		if err != nil {
			return false, err
		}
		if outcome == bullmq.Added || !keyed {
			s.load.added()
			return false, nil
		}
		err = a.compare(ctx, id, stored)
		if lost && err != nil && !errors.As(err, new(*Problem)) && !errors.Is(err, bullmq.ErrJobNotFound) {
			err = s.maybeAdded(ctx, a, id, err)
		}
		if !errors.Is(err, bullmq.ErrJobNotFound) {
			return err == nil && !lost, err
		}
		// The job was removed meanwhile, so the key is free.
	}
	return false, problem(http.StatusServiceUnavailable, CodeUnavailable, "the job of the Idempotency-Key is being removed; try again").after(time.Second)
}

// resolvePause is the pause between two attempts to find out whether a job was added.
const resolvePause = 100 * time.Millisecond

// add adds the job. If the reply is lost, it adds the job again under the same id, which has no effect
// if the first attempt has added it: the job can't have been removed yet, as it is kept for at
// least a minute. A client that leaves does not end the add.
//
// lost reports that the reply of the first attempt was lost, so a job that exists already may be this one.
func (s *Server) add(ctx context.Context, a *async, id string, stored *Request) (outcome bullmq.AddOutcome, lost bool, err error) {
	data, err := stored.encode()
	if err != nil {
		return "", false, err
	}
	o := a.options
	o.JobID = id
	ctx = context.WithoutCancel(ctx)
	attempt := func(limit time.Duration) (bullmq.AddOutcome, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		job, err := s.queue.Add(ctx, a.name, data, &o)
		if err != nil {
			return "", err
		}
		return job.AddOutcome(), nil
	}
	outcome, err = attempt(s.o.Timeout)
	if !errors.Is(err, bullmq.ErrMaybeAdded) {
		return outcome, false, err
	}
	for deadline := time.Now().Add(s.o.Timeout); time.Now().Before(deadline); {
		select {
		case <-time.After(resolvePause):
		case <-s.closed.Done():
			deadline = time.Time{}
		}
		if outcome, err := attempt(max(time.Until(deadline), resolvePause)); err == nil {
			return outcome, true, nil
		}
		if s.exists(ctx, id, max(time.Until(deadline), resolvePause)) { // Redis may be full, or a replica
			return bullmq.AlreadyExists, true, nil
		}
	}
	return "", true, s.maybeAdded(ctx, a, id, err)
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
func (a *async) answer(w http.ResponseWriter, r *http.Request, t target, replayed bool) error {
	s, prefer := a.server, preferencesOf(r)
	w.Header().Add("Vary", "Prefer")
	wait := a.route.Wait
	if prefer.hasWait {
		wait = prefer.wait
	} else if prefer.respondAsync {
		wait = 0
	}
	wait = min(wait, s.o.MaxWait)
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
	if prefer.hasWait {
		applyWait(w.Header(), wait)
	}
	setRetryAfter(w.Header(), s.load.pause(r.Context()))
	if replayed || wait > 0 {
		if job, state, err := s.read(r.Context(), t); err == nil {
			reply(w, http.StatusAccepted, mediaJSON, s.status(job, state))
			return nil
		}
	}
	replyText(w, http.StatusAccepted, mediaJSON, []byte(strings.Join(a.accepted, t.id)))
	return nil
}
