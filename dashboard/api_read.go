package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

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
	Concurrency  int            `json:"concurrency"`
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
		LimitedFor: row.LimitedFor.Milliseconds(), Concurrency: row.Concurrency, Workers: row.Workers, Stuck: row.Stuck(), Added: row.Added,
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

// apiJob is a job in the API. The names are BullMQ's.
type apiJob struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	Queue           string            `json:"queue"`
	URL             string            `json:"url"`
	State           string            `json:"state"`
	Data            json.RawMessage   `json:"data"`
	Options         json.RawMessage   `json:"opts"`
	Progress        json.RawMessage   `json:"progress"`
	ReturnValue     json.RawMessage   `json:"returnvalue"`
	Cut             map[string]apiCut `json:"cut,omitempty"` // values that are not shown whole
	Timestamp       *int64            `json:"timestamp"`
	ProcessedOn     *int64            `json:"processedOn"`
	FinishedOn      *int64            `json:"finishedOn"`
	Delay           int64             `json:"delay"`
	Priority        int               `json:"priority"`
	AttemptsMade    int               `json:"attemptsMade"`
	AttemptsStarted int               `json:"attemptsStarted"`
	Stalled         int               `json:"stalledCounter"`
	FailedReason    string            `json:"failedReason,omitempty"`
	StackTrace      []string          `json:"stacktrace,omitempty"`
	ProcessedBy     string            `json:"processedBy,omitempty"`
	ParentKey       string            `json:"parentKey,omitempty"`
	Scheduler       string            `json:"repeatJobKey,omitempty"`
	Deduplication   string            `json:"deduplicationId,omitempty"`
	Children        *apiChildren      `json:"children,omitempty"`
}

type apiChildren struct {
	Processed   int `json:"processed"`
	Unprocessed int `json:"unprocessed"`
	Failed      int `json:"failed"`
	Ignored     int `json:"ignored"`
}

// apiCut tells about a value that is too long or too deep for the reply, or is not JSON.
type apiCut struct {
	Bytes int    `json:"bytes"`
	Text  string `json:"text"` // its beginning
	URL   string `json:"url"`  // of the whole
}

const (
	listedValue = 4 << 10 // bytes of a value in a list
	wholeValue  = 1 << 20 // bytes of a value of one job
	deepest     = 100     // levels of a value; readers of JSON have limits
)

func (d *Dashboard) jobJSON(r *http.Request, queue string, job *bullmq.Job, state bullmq.State, longest int) apiJob {
	j := apiJob{
		ID: text(job.ID), Name: cut(job.Name, 1000), Queue: text(queue), URL: d.link("api", "v1", "queues", queue, "jobs", job.ID), State: string(state),
		Timestamp: unixMillis(job.Timestamp), ProcessedOn: unixMillis(job.ProcessedOn), FinishedOn: unixMillis(job.FinishedOn), Delay: job.Delay.Milliseconds(), Priority: job.Priority,
		AttemptsMade: job.AttemptsMade, AttemptsStarted: job.AttemptsStarted, Stalled: job.StalledCounter, FailedReason: cut(job.FailedReason, min(longest, longestPart)),
		ProcessedBy: cut(job.ProcessedBy, 1000), ParentKey: text(d.parent(r, job)), Scheduler: text(job.SchedulerID), Deduplication: text(job.DeduplicationID),
	}
	for _, v := range []struct {
		name string
		to   *json.RawMessage
	}{{"data", &j.Data}, {"options", &j.Options}, {"progress", &j.Progress}, {"result", &j.ReturnValue}} {
		value := d.value(r, queue, job, v.name)
		if len(value) == 0 {
			continue
		}
		if len(value) <= longest && !isDeeper(value, deepest) && json.Valid(value) {
			*v.to = value
			continue
		}
		if j.Cut == nil {
			j.Cut = map[string]apiCut{}
		}
		key := map[string]string{"options": "opts", "result": "returnvalue"}[v.name]
		if key == "" {
			key = v.name
		}
		j.Cut[key] = apiCut{len(value), cut(string(value), min(longest, 1000)), d.link("api", "v1", "queues", queue, "jobs", job.ID, "values", v.name)}
	}
	return j
}

// text returns a text with invalid UTF-8 replaced.
func text(s string) string { return cut(s, len(s)) }

func unixMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// isDeeper reports whether JSON is nested deeper than some levels.
func isDeeper(value []byte, levels int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > levels {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// bound returns a number of the query within bounds.
func bound(r *http.Request, name string, standard, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, badRequest{errors.New(name + " is not a number from 0 to " + strconv.Itoa(most))}
	}
	return n, nil
}

func (d *Dashboard) apiJobs(r *http.Request) (any, error) {
	query := r.URL.Query()
	search := bullmq.JobSearch{Name: query.Get("name"), Data: query.Get("data"), Error: query.Get("error"), After: query.Get("after"), MaxTime: d.o.Timeout / 4}
	if d.o.Redact != nil && search.Data != "" {
		return nil, badRequest{errHiddenData}
	}
	for _, name := range query["state"] {
		if !slices.Contains(shownStates, bullmq.State(name)) {
			return nil, badRequest{errors.New("there is no state " + cut(name, 80))}
		}
		search.States = append(search.States, bullmq.State(name))
	}
	var err error
	if search.Limit, err = bound(r, "limit", jobsPerPage, 200); err != nil {
		return nil, err
	}
	search.Limit = max(search.Limit, 1)
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	found, err := queue.Search(r.Context(), search)
	if err != nil {
		if search.After != "" {
			return nil, badRequest{err}
		}
		return nil, err
	}
	reply := struct {
		Jobs []apiJob `json:"jobs"`
		Read int      `json:"read"`
		Next *string  `json:"next"`
	}{[]apiJob{}, found.Read, nil}
	for i, job := range found.Jobs {
		reply.Jobs = append(reply.Jobs, d.jobJSON(r, queue.Name(), job, found.States[i], listedValue))
	}
	if found.Next != "" {
		reply.Next = &found.Next
	}
	return reply, nil
}

func (d *Dashboard) apiJob(r *http.Request) (any, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	job, state, err := queue.JobAndState(r.Context(), r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	reply := d.jobJSON(r, queue.Name(), job, state, wholeValue)
	for _, trace := range job.StackTrace {
		reply.StackTrace = append(reply.StackTrace, cut(trace, longestPart))
	}
	children, err := job.DependencyCounts(r.Context())
	if err != nil {
		return nil, err
	}
	reply.Children = &apiChildren{children.Processed, children.Unprocessed, children.Failed, children.Ignored}
	return reply, nil
}

// longestRow is how many bytes of a row a page of several rows has.
const longestRow = 20_000

func (d *Dashboard) apiLogs(r *http.Request) (any, error) {
	start, err := bound(r, "start", 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	limit, err := bound(r, "limit", logsPerPage, 1000)
	if err != nil {
		return nil, err
	}
	limit = max(limit, 1)
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	if _, err := queue.Job(r.Context(), r.PathValue("job")); err != nil {
		return nil, err
	}
	rows, count, err := queue.JobLogs(r.Context(), r.PathValue("job"), bullmq.Page{Offset: start, Limit: limit, Ascending: true})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if limit > 1 {
			rows[i] = cut(rows[i], longestRow)
		}
		rows[i] = text(rows[i])
	}
	return map[string]any{"logs": orEmpty(rows), "start": start, "count": count}, nil
}

// apiScheduler is a scheduler in the API.
type apiScheduler struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Queue      string `json:"queue"`
	Next       *int64 `json:"next"`
	Words      string `json:"words"`
	Iterations int    `json:"iterations"`
}

func (d *Dashboard) apiSchedulers(r *http.Request) (any, error) {
	content, err := d.queueSchedulers(r)
	if err != nil {
		return nil, err
	}
	page := content.(*schedulersPage)
	list := []apiScheduler{}
	for _, row := range page.Rows {
		list = append(list, apiScheduler{text(row.ID), cut(row.Name, 1000), text(row.Queue), unixMillis(row.Next), text(row.Words), row.Iterations})
	}
	return map[string]any{"schedulers": list, "total": page.Total}, nil
}

// apiLetter is a dead letter in the API.
type apiLetter struct {
	ID           string `json:"id"`
	URL          string `json:"url"`
	State        string `json:"state"`
	Origin       string `json:"origin"`
	Job          string `json:"job"`
	Name         string `json:"name"`
	Reason       string `json:"reason"`
	Cancelled    bool   `json:"cancelled"`
	AttemptsMade int    `json:"attemptsMade"`
	FailedAt     *int64 `json:"failedAt"`
}

func (d *Dashboard) apiLetters(r *http.Request) (any, error) {
	content, err := d.deadLetters(r)
	if err != nil {
		return nil, err
	}
	page := content.(*deadLettersPage)
	reply := struct {
		Letters []apiLetter    `json:"letters"`
		Read    int            `json:"read"`
		Next    *string        `json:"next"`
		Total   *int           `json:"total"`
		Reasons map[string]int `json:"reasons,omitempty"`
		Origins map[string]int `json:"origins,omitempty"`
	}{Letters: []apiLetter{}, Read: page.Read}
	for _, row := range page.Letters {
		reply.Letters = append(reply.Letters, apiLetter{
			text(row.Letter.ID), d.link("api", "v1", "queues", page.Queue, "jobs", row.Letter.ID), string(row.State), text(row.QueueName), text(row.JobID),
			cut(row.Name, 1000), cut(row.Reason, listedValue), row.Cancelled, row.AttemptsMade, unixMillis(row.FailedAt),
		})
	}
	if next, err := url.Parse(page.Next); err == nil && page.Next != "" {
		after := next.Query().Get("after")
		reply.Next = &after
	}
	if page.Counted {
		reply.Total, reply.Reasons, reply.Origins = &page.Total, map[string]int{}, map[string]int{}
		for _, c := range page.Reasons {
			reply.Reasons[text(c.What)] += c.Count
		}
		for _, c := range page.Origins {
			reply.Origins[text(c.What)] += c.Count
		}
	}
	return reply, nil
}

// apiWorker is a worker in the API.
type apiWorker struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name"`
	Queues      []string `json:"queues"`
	QueueCount  int      `json:"queueCount"`
	Registered  bool     `json:"registered"`
	Host        string   `json:"host,omitempty"`
	PID         int      `json:"pid,omitempty"`
	Version     string   `json:"version,omitempty"`
	Library     string   `json:"library,omitempty"`
	Concurrency int      `json:"concurrency"`
	Running     int      `json:"running"`
	Paused      bool     `json:"paused"`
	Stopping    bool     `json:"stopping"`
	Started     *int64   `json:"started"`
	LastSeen    *int64   `json:"lastSeen"`
}

func (d *Dashboard) apiWorkers(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	workers, err := d.listWorkers(r, names...)
	if err != nil {
		return nil, err
	}
	list := []apiWorker{}
	for _, w := range workers {
		queues := []string{}
		for _, name := range w.Queues {
			queues = append(queues, text(name))
		}
		list = append(list, apiWorker{
			text(w.ID), cut(w.Name, 1000), queues, w.QueueCount, w.IsRegistered(), cut(w.Host, 1000), w.PID, cut(w.Version, 1000), cut(w.Library, 1000),
			w.Concurrency, w.Running, w.Paused, w.Stopping, unixMillis(w.Started), unixMillis(w.LastSeen),
		})
	}
	return map[string]any{"workers": list}, nil
}
