package scripts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var releaseParent = load("releaseParent")

// AddFlow adds the jobs of flows in one transaction. Each add attaches its job to the parent.
// In BullMQ 6, parents without pending children are released at the end of the transaction.
// In BullMQ 5, a child that had completed before releases its parent when it is added.
func (q *Store) AddFlow(ctx context.Context, jobs []backend.FlowJob, now time.Time) ([]backend.AddResult, error) {
	f := flow{sent: map[string]bool{}, released: map[backend.JobRef]bool{}}
	of := ""
	for i, job := range jobs {
		store, ok := job.Queue.(*Store)
		if !ok {
			return nil, fmt.Errorf("bullmq: adding a flow: the queue of job %d is not in Redis", i)
		}
		if i == 0 {
			of = " of " + store.base
		}
		f.add(store, job.Add, now)
	}
	calls := append([]rueidis.Completed{q.client.B().Multi().Build()}, f.adds...)
	calls = append(append(calls, f.releases...), q.client.B().Exec().Build())
	replies := q.client.DoMulti(ctx, calls...)
	if err := replies[0].Error(); err != nil && slices.ContainsFunc(replies[1:], func(r rueidis.RedisResult) bool { return r.Error() == nil }) {
		// Not wrapped, because callers would take the error to mean that nothing has run.
		return nil, fmt.Errorf("bullmq: adding a flow%s: MULTI was refused, so its calls ran one by one: %s", of, err.Error())
	}
	for _, reply := range replies {
		// After an error reply nothing was added. After another error all jobs may have
		// been added.
		if err := reply.Error(); err != nil {
			return nil, fmt.Errorf("bullmq: adding a flow%s: %w", of, err)
		}
	}
	messages, err := replies[len(replies)-1].ToArray()
	if err != nil {
		return nil, fmt.Errorf("bullmq: adding a flow%s: %w", of, err)
	}
	if want := len(calls) - 2; len(messages) != want {
		return nil, fmt.Errorf("bullmq: adding a flow%s: %d replies to %d calls", of, len(messages), want)
	}
	results := make([]backend.AddResult, len(jobs))
	for i, job := range jobs {
		if err := messages[i].Error(); err != nil {
			results[i].Err = err
			continue
		}
		results[i] = job.Queue.(*Store).added(job.Add, messages[i])
	}
	return results, nil
}

// flow collects the calls of a transaction that adds flows.
type flow struct {
	adds, releases []rueidis.Completed
	sent           map[string]bool // hashes of the scripts whose text is sent
	released       map[backend.JobRef]bool
}

func (f *flow) add(q *Store, a *backend.Add, now time.Time) {
	deferred := q.Dialect == V6
	f.adds = append(f.adds, f.call(q, addCommand(a), encodeAdd(q.base, a, deferred)))
	if !deferred || a.Parent.IsZero() || f.released[a.Parent] {
		return
	}
	f.released[a.Parent] = true
	queueKey := strings.TrimSuffix(a.Parent.String(), ":"+a.Parent.ID)
	f.releases = append(f.releases, f.call(q, releaseParent, []string{queueKey, a.Parent.ID, decimal(now.UnixMilli())}))
}

// call returns the call of a script. It sends the text of each script once. Otherwise, if the
// server did not know a script, only the calls of that script would fail, and the rest of the
// transaction would run.
func (f *flow) call(q *Store, c *command, args []string) rueidis.Completed {
	sha := c.forms[q.Dialect].sha
	withText := !f.sent[sha]
	f.sent[sha] = true
	return q.call(q.client.B(), c, withText, args)
}
