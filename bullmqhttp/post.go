package bullmqhttp

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Post returns a handler that adds a typed job for each request, and replies 202. The body of the request
// is the data of the job, as JSON. The Server serves the job below Options.Base, with its result:
//
//	jobs := bullmqhttp.New(orders, &bullmqhttp.Options{Base: "/orders"})
//	web.Handle("POST /orders", bullmqhttp.Post(jobs, Bill, checkOrder))
//	web.Handle("/orders/", jobs)
//
// check is called with the decoded data, and may change it. It returns an error to refuse the request
// with 422. Clients see the text of the error. If it is a [*Problem], the reply is as that says. check may
// also set options of the job, which take precedence over those of the type. With a JobID, the client
// can repeat the request without adding a second job. check may be nil.
//
//   - Location is the address of the status. The body is a [Status]. Retry-After is when to ask for
//     it. A client may prefer to wait for the result, as with [Server.Async].
//   - A body that is not application/json, or another type that ends with +json, is refused with 415.
//     One that is not JSON or does not fit the type of the data is refused with 400. If a value has the
//     wrong type, Problem.Path is its place. A body without fields that the type has, or with others, is
//     accepted.
//   - If a job with the JobID exists, the reply names it, with Idempotency-Replayed, if the same request of
//     the same owner has added it. Otherwise the reply is 409.
//   - If check sets no JobID, the id is random, or made from the Idempotency-Key.
//   - With a Deduplication, the reply names the job that owns the deduplication id.
//
// The job is the same as one of [bullmq.JobType.Add], so workers in Go and in Node run it. Jobs of the type
// that other programs have added are served too. If Options.Owner is set, the option http of a job has
// its owner. Options.Carry, Options.Headers and Options.Bodies have no effect on these jobs.
//
// If the options set no KeepCompleted or KeepFailed, Options.KeepFor is used. Options.Reason decides what
// clients see of an error.
//
// Post panics if s or t is nil or the Server has another route with the name of the type. A process that
// serves the jobs and adds none calls Post too.
func Post[D, R any](s *Server, t *bullmq.JobType[D, R], check func(r *http.Request, data *D, options *bullmq.JobOptions) error) http.Handler {
	if s == nil || t == nil {
		panic("bullmqhttp: post: the Server or the job type is nil")
	}
	return &post[D, R]{s.register(t.Name(), true, 0), t, check}
}

// post is the handler of Post.
type post[D, R any] struct {
	adder
	job   *bullmq.JobType[D, R]
	check func(r *http.Request, data *D, options *bullmq.JobOptions) error
}

// ServeHTTP implements [http.Handler].
func (p *post[D, R]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := p.serve(w, r); err != nil {
		p.server.send(w, r, err)
	}
}

func (p *post[D, R]) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		w.Header().Set("Allow", "POST, PUT")
		return problem(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "use POST or PUT")
	}
	owner, err := p.server.admit(r, ActionSubmit)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	var data D
	sent, err := decodeBodyOf(w, r, p.server.o.MaxBody, &data)
	if err != nil {
		return err
	}
	var options bullmq.JobOptions
	if p.check != nil {
		if err := p.check(r, &data, &options); err != nil {
			return refusedData(err)
		}
	}
	if !p.server.queue.Health().Reachable {
		return unreachable()
	}
	job := &newJob{
		owner: owner, keyed: key != "" && options.JobID == "", chosen: options.JobID != "",
		digest: digest(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(sent)),
	}
	switch {
	case job.keyed:
		options.JobID = keyID(owner, p.name, key)
	case !job.chosen:
		options.JobID = newID()
	}
	if err = checkPathID(options.JobID); err != nil {
		return err
	}
	job.data, err = marshal(data)
	if err == nil {
		job.options, err = p.server.typedOptions(*p.job.Bulk(data, &options).Options, job)
	}
	if err != nil {
		return p.server.broken(r.Context(), p.name, err)
	}
	return p.adder.serve(w, r, job, false)
}

// refusedData returns the problem for an error of the function of [Post].
func refusedData(err error) error {
	var own *Problem
	if errors.As(err, &own) {
		return own
	}
	return problem(http.StatusUnprocessableEntity, CodeInvalidData, "%s", err.Error())
}

// checkPathID refuses an id that can't be part of a path: a client or a proxy would remove the segments
// . and .. from it.
func checkPathID(id string) error {
	if id == "." || id == ".." {
		return problem(http.StatusBadRequest, CodeInvalidJobID, "the id of a job must not be %s", id)
	}
	return checkID(id)
}

// originOption is the option of a job that has its [origin]. BullMQ stores and keeps it as any unknown option.
const originOption = "http"

// origin is what the Server knows of the request that has added a typed job.
type origin struct {
	Owner  string `json:"owner,omitempty"`
	Digest string `json:"digest,omitempty"` // of a request that may be repeated
}

// origin returns the owner of a job and the digest of the request that has added it. It is not known if the
// Server must not serve the job.
func (s *Server) origin(job *bullmq.Job) (owner, digest string, known bool) {
	if s.isTyped(job.Name) {
		var from origin
		if text := job.Options.Extra[originOption]; len(text) > 0 && json.Unmarshal(text, &from) != nil {
			return "", "", false
		}
		return from.Owner, from.Digest, true
	}
	stored, err := ReadRequest(job)
	if err != nil || !isID(job.ID) {
		return "", "", false
	}
	return stored.Owner, stored.Digest, true
}

// typedOptions returns the options of a typed job as they are stored.
func (s *Server) typedOptions(o bullmq.JobOptions, job *newJob) (bullmq.JobOptions, error) {
	if o.Parent != nil || o.Target != nil {
		return o, errors.New("the options have a Parent or a Target; a job with one is not found at its Location")
	}
	reset := []string{"parent", "target", "timestamp"}
	if o.Deduplication == nil {
		reset = append(reset, "deduplication")
	}
	o.Reset = append(slices.Clone(o.Reset), reset...)
	extra := maps.Clone(noScheduler)
	maps.Copy(extra, o.Extra)
	o.Extra = extra
	from := origin{Owner: job.owner}
	if job.repeatable() {
		from.Digest = job.digest
	}
	if from != (origin{}) {
		text, err := marshal(from)
		if err != nil {
			return o, err
		}
		o.Extra[originOption] = text
	}
	if o.KeepCompleted.IsZero() {
		o.KeepCompleted = bullmq.KeepFor(s.o.KeepFor)
	}
	if o.KeepFailed.IsZero() {
		o.KeepFailed = bullmq.KeepFor(s.o.KeepFor)
	}
	return o, nil
}

// expiryOf returns when a typed job that has ended may be removed, or the zero time if that depends on more
// than its age.
func expiryOf(job *bullmq.Job, state State) time.Time {
	keep := job.Options.KeepFailed
	if state == Succeeded {
		keep = job.Options.KeepCompleted
	}
	var rule struct {
		Age int64 `json:"age"`
	}
	text, err := keep.MarshalJSON()
	if err != nil || json.Unmarshal(text, &rule) != nil || rule.Age <= 0 || rule.Age > int64(1<<62/time.Second) {
		return time.Time{}
	}
	return utc(job.FinishedOn.Add(time.Duration(rule.Age) * time.Second))
}

// resultOf returns the result of a typed job as clients see it. It is nil if there is none.
func resultOf(value json.RawMessage) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return readable(value)
}

// sendResultOf replies with the result of a typed job.
func sendResultOf(w http.ResponseWriter, result json.RawMessage) {
	if len(result) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	replyText(w, http.StatusOK, mediaJSON, result)
}
