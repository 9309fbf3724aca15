package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

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
	Cancellation    *string           `json:"cancellation,omitempty"` // reason of one that was requested
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
	if reason := d.cancellation(queue, job); reason != nil {
		j.Cancellation = new(cut(*reason, 1000))
	}
	cuts := cuts{longest: longest}
	for _, v := range []struct {
		name, key string
		to        *json.RawMessage
	}{{"data", "data", &j.Data}, {"options", "opts", &j.Options}, {"progress", "progress", &j.Progress}, {"result", "returnvalue", &j.ReturnValue}} {
		*v.to = cuts.value(v.key, d.value(r, job, v.name), d.link("api", "v1", "queues", queue, "jobs", job.ID, "values", v.name))
	}
	j.Cut = cuts.cut
	return j
}

// cuts collects the values that a reply does not have whole.
type cuts struct {
	longest int // bytes of a value
	cut     map[string]apiCut
}

// value returns a value for a reply, or nil if it is cut. address is that of the whole.
func (c *cuts) value(name string, value []byte, address string) json.RawMessage {
	if len(value) == 0 {
		return nil
	}
	if len(value) <= c.longest && !isDeeper(value, deepest) && json.Valid(value) {
		return value
	}
	if c.cut == nil {
		c.cut = map[string]apiCut{}
	}
	c.cut[name] = apiCut{len(value), cut(string(value), min(c.longest, 1000)), address}
	return nil
}

func (d *Dashboard) apiJobs(r *http.Request) (any, error) {
	query := r.URL.Query()
	search := bullmq.JobSearch{Name: query.Get("name"), Data: query.Get("data"), Error: query.Get("error"), After: query.Get("after"), MaxTime: d.o.Timeout / 4}
	if err := d.maySearch(search.Data, search.Error); err != nil {
		return nil, err
	}
	for _, name := range query["state"] {
		if !slices.Contains(shownStates, bullmq.State(name)) {
			return nil, badRequest{errors.New("there is no state " + cut(name, 80))}
		}
		search.States = append(search.States, bullmq.State(name))
	}
	err := d.setAge(&search, query.Get("older"), query.Get("newer"))
	if err != nil {
		return nil, err
	}
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
		reply.Jobs = append(reply.Jobs, d.jobJSON(r, queue.Name(), d.shownJob(queue.Name(), job), found.States[i], listedValue))
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
	children, err := job.DependencyCounts(r.Context())
	if err != nil {
		return nil, err
	}
	job = d.shownJob(queue.Name(), job)
	reply := d.jobJSON(r, queue.Name(), job, state, wholeValue)
	for _, trace := range job.StackTrace {
		reply.StackTrace = append(reply.StackTrace, cut(trace, longestPart))
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
	job, err := queue.Job(r.Context(), r.PathValue("job"))
	if err != nil {
		return nil, err
	}
	rows, count, err := queue.JobLogs(r.Context(), r.PathValue("job"), bullmq.Page{Offset: start, Limit: limit, Ascending: true})
	if err != nil {
		return nil, err
	}
	rows = d.shownLines(queue.Name(), job, rows)
	for i := range rows {
		if limit > 1 {
			rows[i] = cut(rows[i], longestRow)
		}
		rows[i] = text(rows[i])
	}
	return map[string]any{"logs": orEmpty(rows), "start": start, "count": count}, nil
}
