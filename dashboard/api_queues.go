package dashboard

import (
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// apiQueue is a queue in the API. Durations and times are in milliseconds, as in BullMQ.
type apiQueue struct {
	Name         string         `json:"name"`
	URL          string         `json:"url"`
	Error        string         `json:"error,omitempty"` // why it can't be read
	Counts       map[string]int `json:"counts"`
	Ages         map[string]int `json:"ages"`
	Paused       bool           `json:"paused"`
	LimitedFor   int64          `json:"limitedFor"`
	Concurrency  *int           `json:"concurrency"`
	RateLimit    *apiLimit      `json:"rateLimit"`
	Workers      int            `json:"workers"`
	Stuck        bool           `json:"stuck"`
	Added        int            `json:"added"`
	FailureRatio *float64       `json:"failureRatio"`
	Completed    []int          `json:"completedByMinute"`
	Failed       []int          `json:"failedByMinute"`
}

type apiLimit struct {
	Max      int   `json:"max"`
	Duration int64 `json:"duration"`
}

func (d *Dashboard) queueJSON(row queueRow) apiQueue {
	q := apiQueue{
		Name: row.Name, URL: d.link("api", "v1", "queues", row.Name), Counts: map[string]int{}, Ages: map[string]int{}, Paused: row.Paused,
		LimitedFor: row.LimitedFor.Milliseconds(), Workers: row.Workers, Stuck: row.Stuck(), Added: row.Added,
		Completed: orEmpty(row.Completed.Points), Failed: orEmpty(row.Failed.Points),
	}
	if row.Err != nil {
		q.Error = cut(row.Err.Error(), 2000)
		return q
	}
	for _, state := range shownStates {
		q.Counts[string(state)] = row.Counts[state]
		if age, ok := row.Ages[state]; ok {
			q.Ages[string(state)] = int(age.Milliseconds())
		}
	}
	if row.Concurrency > 0 || row.Stopped {
		q.Concurrency = &row.Concurrency
	}
	if row.LimitMax > 0 {
		q.RateLimit = &apiLimit{row.LimitMax, row.LimitDuration.Milliseconds()}
	}
	if row.FailureRatio >= 0 {
		q.FailureRatio = &row.FailureRatio
	}
	return q
}

func (d *Dashboard) apiQueues(r *http.Request) (any, error) {
	content, err := d.overview(r)
	if err != nil {
		return nil, err
	}
	page := content.(*overviewPage)
	reply := struct {
		Queues []apiQueue `json:"queues"`
		Hidden int        `json:"hidden"`
	}{[]apiQueue{}, page.Hidden}
	for _, group := range page.Groups {
		for _, row := range group.Queues {
			reply.Queues = append(reply.Queues, d.queueJSON(row))
		}
	}
	return reply, nil
}

func (d *Dashboard) apiQueue(r *http.Request) (any, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	summaries, err := bullmq.SummarizeQueues(r.Context(), d.connection, d.o.Prefix, queue.Name())
	if err != nil {
		return nil, err
	}
	workers, _ := queue.Workers(r.Context()) // the rest is useful without them
	return d.queueJSON(d.rowOf(summaries[0], len(workers))), nil
}
