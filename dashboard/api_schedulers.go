package dashboard

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// apiScheduler is a scheduler in the API.
type apiScheduler struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Queue      string `json:"queue"`
	URL        string `json:"url"`
	Next       *int64 `json:"next"`
	PausedAt   *int64 `json:"pausedAt"`
	Words      string `json:"words"`
	Iterations int    `json:"iterations"`

	*apiSchedule // of one scheduler
}

// apiSchedule is what a list of schedulers lacks. The names are BullMQ's.
type apiSchedule struct {
	Pattern   string            `json:"pattern,omitempty"`
	TimeZone  string            `json:"tz,omitempty"`
	Every     int64             `json:"every,omitempty"`
	Offset    int64             `json:"offset,omitempty"`
	StartDate *int64            `json:"startDate"`
	EndDate   *int64            `json:"endDate"`
	Limit     int               `json:"limit,omitempty"`
	Notes     []string          `json:"notes"`
	Overdue   int64             `json:"overdue"`
	NextJob   *apiRun           `json:"nextJob"`
	Times     []int64           `json:"times"`
	Ends      bool              `json:"ends"`
	Runs      []apiRun          `json:"runs"`
	Data      json.RawMessage   `json:"data"`
	Options   json.RawMessage   `json:"opts"`
	Cut       map[string]apiCut `json:"cut,omitempty"`
}

// apiRun is a job of a scheduler.
type apiRun struct {
	Due          *int64 `json:"due"`
	ID           string `json:"id"`
	URL          string `json:"url"`
	State        string `json:"state"`
	ProcessedOn  *int64 `json:"processedOn"`
	FinishedOn   *int64 `json:"finishedOn"`
	FailedReason string `json:"failedReason,omitempty"`
}

func (d *Dashboard) schedulerJSON(row schedulerRow) apiScheduler {
	return apiScheduler{
		ID: text(row.ID), Name: cut(row.Name, 1000), Queue: text(row.Queue), URL: d.link("api", "v1", "queues", row.Queue, "schedulers", row.ID), Next: unixMillis(row.Next),
		PausedAt: unixMillis(row.PausedAt), Words: text(row.Words), Iterations: row.Iterations,
	}
}

// apiSchedulers returns a read of the schedulers of a queue, or of all queues. parameter is the
// one of the next page.
func (d *Dashboard) apiSchedulers(read func(*http.Request) (any, error), parameter string) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		content, err := read(r)
		if err != nil {
			return nil, err
		}
		page := content.(*schedulersPage)
		reply := struct {
			Schedulers []apiScheduler `json:"schedulers"`
			Total      int            `json:"total"`
			Paused     int            `json:"paused"`
			Next       *string        `json:"next"`
		}{[]apiScheduler{}, page.Total, page.Paused, parameterOf(page.Next, parameter)}
		for _, row := range page.Rows {
			reply.Schedulers = append(reply.Schedulers, d.schedulerJSON(row))
		}
		return reply, nil
	}
}

// parameterOf returns a parameter of an address; nil if there is none.
func parameterOf(address, name string) *string {
	parsed, err := url.Parse(address)
	if err != nil || address == "" {
		return nil
	}
	value := parsed.Query().Get(name)
	return &value
}

func (d *Dashboard) apiScheduler(r *http.Request) (any, error) {
	content, err := d.scheduler(r)
	if err != nil {
		return nil, err
	}
	page := content.(*schedulerPage)
	repeat := page.Repeat
	s := &apiSchedule{
		Pattern: cut(repeat.Pattern, 1000), TimeZone: cut(repeat.TimeZone, 1000), Every: repeat.Every.Milliseconds(), Offset: repeat.Offset.Milliseconds(),
		StartDate: unixMillis(repeat.StartDate), EndDate: unixMillis(repeat.EndDate), Limit: repeat.Limit, Notes: orEmpty(page.Notes), Overdue: page.Overdue(page.Now).Milliseconds(),
		Times: []int64{}, Ends: page.Ends, Runs: []apiRun{},
	}
	for _, at := range page.Times {
		s.Times = append(s.Times, at.UnixMilli())
	}
	if page.NextJob != nil {
		run := d.runJSON(page.Queue, schedulerRun{page.Next, page.NextJob, page.NextState})
		s.NextJob = &run
	}
	for _, run := range page.Runs {
		s.Runs = append(s.Runs, d.runJSON(page.Queue, run))
	}
	cuts := cuts{longest: wholeValue}
	s.Data = cuts.value("data", page.Data, d.link("api", "v1", "queues", page.Queue, "schedulers", page.ID, "values", "data"))
	s.Options = cuts.value("opts", page.TemplateOptions, d.link("api", "v1", "queues", page.Queue, "schedulers", page.ID, "values", "options"))
	s.Cut = cuts.cut
	reply := d.schedulerJSON(page.schedulerRow)
	reply.apiSchedule = s
	return reply, nil
}

func (d *Dashboard) runJSON(queue string, run schedulerRun) apiRun {
	return apiRun{
		unixMillis(run.Due), text(run.Job.ID), d.link("api", "v1", "queues", queue, "jobs", run.Job.ID), string(run.State), unixMillis(run.Job.ProcessedOn),
		unixMillis(run.Job.FinishedOn), cut(run.Job.FailedReason, listedValue),
	}
}
