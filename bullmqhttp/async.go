package bullmqhttp

import (
	"encoding/json"
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
	adder
	route   Route
	types   []string
	headers []string
	options bullmq.JobOptions // without the id

	patterns sync.Map // names of wildcards, by pattern
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
	a := &async{route: route, headers: allowList(s.headers, route.Headers)}
	for _, accepted := range route.ContentTypes {
		media, _, err := mime.ParseMediaType(accepted)
		if err != nil {
			panic(fmt.Sprintf("bullmqhttp: route %q: ContentTypes: %q: %v", name, accepted, err))
		}
		a.types = append(a.types, media)
	}
	a.adder = s.register(name, false, route.Wait)
	a.options = s.jobOptions(route.Job)
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
		return unreachable()
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
	data, err := stored.encode()
	if err != nil {
		return err
	}
	options := a.options
	options.JobID = id
	return a.adder.serve(w, r, &newJob{data: data, options: options, owner: owner, digest: stored.Digest, keyed: key != ""}, known)
}

// unreachable is the reply while Redis is known to be unreachable.
func unreachable() *Problem {
	return problem(http.StatusServiceUnavailable, CodeUnavailable, "Redis can't be reached; try again later").after(outagePause)
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
