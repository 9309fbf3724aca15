package scripts

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

var releaseParent = load("releaseParent")

// Branch is one job of a flow, on its queue.
type Branch struct {
	Queue *Store
	Add   Add
}

// Waiting is a parent that a flow has attached children to.
type Waiting struct {
	Queue    *Store
	QueueKey string // bull:orders
	ID       string
}

// AddFlow adds all jobs of some flows in one transaction, parents before their
// children, and then lets go of parents whose children had all completed
// before. For each job it returns the outcome of its add, or its refusal.
func AddFlow(ctx context.Context, client Client, branches []Branch, parents []Waiting, nowMs int64) ([]AddResult, []error, error) {
	sent := map[string]bool{}
	build := func(q *Store, c *command, args []string) rueidis.Completed {
		// Within a transaction a script that the server doesn't know would fail
		// alone, so each is sent as text once.
		sha := c.forms[q.Dialect].sha
		withText := !sent[sha]
		sent[sha] = true
		return q.call(q.client.B(), c, withText, args)
	}
	calls := []rueidis.Completed{client.B().Multi().Build()}
	for _, b := range branches {
		calls = append(calls, build(b.Queue, b.Queue.addCommand(b.Add), b.Queue.addArgs(b.Add)))
	}
	for _, p := range parents {
		calls = append(calls, build(p.Queue, releaseParent, []string{p.QueueKey, p.ID, decimal(nowMs)}))
	}
	calls = append(calls, client.B().Exec().Build())
	of := ""
	if len(branches) > 0 {
		of = " of " + branches[0].Queue.base
	}
	results := client.DoMulti(ctx, calls...)
	for _, result := range results {
		// Of a refusal nothing has been carried out; after another error all may have been.
		if err := result.Error(); err != nil {
			return nil, nil, fmt.Errorf("bullmq: adding a flow%s: %w", of, err)
		}
	}
	answers, err := results[len(results)-1].ToArray()
	if err != nil {
		return nil, nil, fmt.Errorf("bullmq: adding a flow%s: %w", of, err)
	}
	if len(answers) != len(branches)+len(parents) {
		return nil, nil, fmt.Errorf("bullmq: a flow%s, %d jobs, got %d answers", of, len(branches), len(answers))
	}
	added, refusals := make([]AddResult, len(branches)), make([]error, len(branches))
	for i, b := range branches {
		if err := answers[i].Error(); err != nil {
			refusals[i] = err
			continue
		}
		added[i], refusals[i] = b.Queue.added(b.Add, answers[i])
	}
	return added, refusals, nil
}
