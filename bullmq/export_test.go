package bullmq

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// LookForResultsEvery says how often a wait asks for a job of whose end nothing was heard.
func (q *Queue) LookForResultsEvery(d time.Duration) { q.results.lookAgain = d }

// MissedUncounted is how many events a reader has missed at least, after the event last and before the
// page, in a stream that begins with first, where Redis doesn't count what it adds.
func MissedUncounted(last, first string, page ...string) int {
	events := make([]Event, len(page))
	for i, id := range page {
		events[i].ID = id
	}
	p := eventPosition{id: last, count: -1}
	return p.missed(scripts.Stream{First: first, Last: "9-0", Deleted: "0-0", Length: 1, Added: -1}, events)
}

// URL, Options and Client describe a connection that each of its users opens for
// itself, and closes, as it does with the URL of its options.

// URL describes a connection by an address.
func URL(url string) *Connection {
	return &Connection{address: redisconn.HidePassword(url), use: func(ctx context.Context) (*redisconn.Conn, bool, error) {
		conn, err := dialURL(ctx, url)
		return conn, true, err
	}}
}

// Options describes a connection by an option of rueidis.
func Options(option rueidis.ClientOption) *Connection {
	return &Connection{address: strings.Join(option.InitAddress, ","), use: func(ctx context.Context) (*redisconn.Conn, bool, error) {
		conn, err := redisconn.Dial(ctx, option)
		return conn, true, err
	}}
}

// Client describes a connection by a client.
func Client(client rueidis.Client) *Connection {
	return &Connection{use: func(ctx context.Context) (*redisconn.Conn, bool, error) {
		conn, err := redisconn.Wrap(ctx, client)
		return conn, true, err
	}}
}

// WithoutAddOutcome returns the job as one that was read, to compare the two.
func WithoutAddOutcome(job *Job) *Job {
	read := *job
	read.outcome = ""
	return &read
}

// FailureLog returns a function that logs a failed attempt of a job as a worker does.
func FailureLog(to Logger, job *Job, err error) func() {
	w, a := &Worker{core: &core{log: to.with()}}, &attempt{ctx: context.Background(), job: job}
	return func() { w.logFailure(a, result{err: err}, true) }
}
