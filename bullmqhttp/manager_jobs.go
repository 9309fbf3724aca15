package bullmqhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// JobInfo is a job as a [Manager] shows it, as JSON.
type JobInfo struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	State State           `json:"status"`
	Data  json.RawMessage `json:"data,omitempty"`
	// Attempts is how many attempts have ended, of at most MaxAttempts.
	Attempts    int             `json:"attempts"`
	MaxAttempts int             `json:"maxAttempts"`
	Priority    int             `json:"priority,omitempty"`
	Progress    json.RawMessage `json:"progress,omitempty"`
	// Worker is the name of the worker that has the job, or had it last. Workers of BullMQ and
	// bullmq-go may have none.
	Worker  string    `json:"worker,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Due is when a job in the state Scheduled is due. Of a job in the state Retrying it is known
	// only in the result of the Fail that has delayed the job.
	Due     time.Time `json:"due,omitzero"`
	Started time.Time `json:"started,omitzero"` // of the last attempt
	Ended   time.Time `json:"ended,omitzero"`
	// Result is the return value, in the state Succeeded.
	Result json.RawMessage `json:"result,omitempty"`
	// Error is why the last attempt failed.
	Error string `json:"error,omitempty"`
}

func infoOf(job *bullmq.Job, state State) *JobInfo {
	info := &JobInfo{
		ID: job.ID, Name: job.Name, State: state, Data: readable(job.Data), Attempts: job.AttemptsMade, MaxAttempts: max(job.Options.Attempts, 1),
		Priority: job.Priority, Progress: readable(job.Progress), Worker: job.ProcessedBy, Created: utc(job.Timestamp), Started: utc(job.ProcessedOn),
	}
	if state == Scheduled {
		info.Due = utc(job.Timestamp.Add(job.Delay))
	}
	if state.Ended() {
		info.Ended = utc(job.FinishedOn).Truncate(time.Millisecond)
	}
	if state == Succeeded {
		info.Result = readable(job.ReturnValue)
	} else {
		info.Error = job.FailedReason
	}
	return info
}

// readable returns a stored value, as a text if it is not JSON that every reader can parse.
func readable(stored json.RawMessage) json.RawMessage {
	if stored == nil || jsontext.Valid(stored) {
		return stored
	}
	return quote(string(stored))
}

// Submit adds a job. options may be nil; ManagerOptions.Job has the defaults. Without a JobID the id is
// random. Submit returns [ErrJobExists] if a job with the JobID exists, and [ErrInvalidJob] if the name,
// the data or the options are invalid. If another job has the deduplication id, Submit returns that job.
//
// If the reply of Redis is lost, Submit looks for the job. It does not add the job again, because that could
// make a second one: the first may have run and been removed. If it does not find the job, it returns
// [ErrMaybeAdded] with the id.
func (m *Manager) Submit(ctx context.Context, name string, data any, options *bullmq.JobOptions) (*JobInfo, error) {
	var o bullmq.JobOptions
	if options != nil {
		o = *options
	}
	if name == "" {
		return nil, problem(http.StatusBadRequest, CodeInvalidJob, "the job has no name")
	}
	text, err := marshal(data)
	if err != nil {
		return nil, problem(http.StatusBadRequest, CodeInvalidJob, "the data can't be written as JSON: %v", err).by(err)
	}
	given := o.JobID != ""
	if given {
		if err := checkID(o.JobID); err != nil {
			return nil, err
		}
	} else {
		o.JobID = "job-" + strings.TrimPrefix(newID(), randomPrefix)
	}
	begun := m.o.Fetcher.Now().Truncate(time.Millisecond)
	job, err := m.add(ctx, name, text, &o)
	if errors.Is(err, bullmq.ErrMaybeAdded) {
		if found, state := m.lookFor(ctx, o.JobID); found != nil {
			if given && !(found.Name == name && bytes.Equal(found.Data, text) && !found.Timestamp.Before(begun)) {
				return nil, conflict(CodeJobExists, found.ID, "a job with this id exists")
			}
			return infoOf(found, lifecycle(found, state)), nil
		}
	}
	if err != nil {
		return nil, refusedAdd(ctx, o.JobID, given, err)
	}
	switch {
	case job.AddOutcome() == bullmq.AlreadyExists && given:
		return nil, conflict(CodeJobExists, job.ID, "a job with this id exists")
	case job.AddOutcome() == bullmq.Deduplicated:
		return m.Get(ctx, job.ID)
	}
	info := infoOf(job, Queued)
	if job.Delay > 0 {
		info.State, info.Due = Scheduled, utc(job.Timestamp.Add(job.Delay))
	}
	return info, nil
}

// add adds a job once.
func (m *Manager) add(ctx context.Context, name string, data json.RawMessage, o *bullmq.JobOptions) (*bullmq.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	return m.queue.Add(ctx, name, data, o)
}

// looks is how often a job that may have been added is looked for.
const looks = 10

// lookFor returns a job that may have been added, or nil if there is none, or if Redis can't be reached for
// some seconds. It looks several times, because Redis may run the add after the connection has broken.
func (m *Manager) lookFor(ctx context.Context, id string) (*bullmq.Job, bullmq.State) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	for missing := 0; ; {
		job, state, err := m.queue.JobAndState(ctx, id)
		switch {
		case err == nil:
			return job, state
		case errors.Is(err, bullmq.ErrJobNotFound):
			missing++
		}
		if missing == looks || errors.Is(err, bullmq.ErrClosed) {
			return nil, ""
		}
		select {
		case <-time.After(resolvePause):
		case <-ctx.Done():
			return nil, ""
		case <-m.closed.Done():
			return nil, ""
		}
	}
}

// refusedAdd returns the problem for an error of Queue.Add.
func refusedAdd(ctx context.Context, id string, given bool, err error) error {
	var refused *bullmq.Error
	switch {
	case errors.Is(err, bullmq.ErrMaybeAdded):
		return problem(http.StatusServiceUnavailable, CodeMaybeAdded, "the reply of Redis was lost; look for the job by its id").
			about(id).after(outagePause).by(err)
	case errors.Is(err, bullmq.ErrClosed), ctx.Err() != nil:
		return refusal(ctx, id, err)
	case given && strings.Contains(err.Error(), fmt.Sprintf("job id %.80q", id)):
		return problem(http.StatusBadRequest, CodeInvalidJobID, "%s", plain(err)).by(err)
	case errors.As(err, &refused), strings.Contains(err.Error(), " was not added to "): // the checks of package bullmq, and missing parents
		return problem(http.StatusBadRequest, CodeInvalidJob, "%s", plain(err)).by(err)
	default:
		return unavailable(err)
	}
}

func plain(err error) string { return strings.TrimPrefix(err.Error(), "bullmq: ") }

// maxID is the maximum length of an id, in bytes.
const maxID = 1000

func checkID(id string) error {
	if id == "" || len(id) > maxID || !isPrintable(id) {
		return problem(http.StatusBadRequest, CodeInvalidJobID, "the id of a job has 1 to %d bytes, and no control characters", maxID)
	}
	return nil
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// Get returns a job, or [ErrJobNotFound].
func (m *Manager) Get(ctx context.Context, id string) (*JobInfo, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	job, state, err := m.queue.JobAndState(ctx, id)
	if err != nil {
		return nil, refusal(ctx, id, err)
	}
	return infoOf(job, lifecycle(job, state)), nil
}

// listed are BullMQ's states for a state of List.
var listed = map[State][]bullmq.State{
	Queued:    {bullmq.StateWaiting, bullmq.StatePrioritized},
	Scheduled: {bullmq.StateDelayed},
	Running:   {bullmq.StateActive},
	Succeeded: {bullmq.StateCompleted},
	Failed:    {bullmq.StateFailed},
}

// List returns up to limit jobs in the state Queued, Scheduled, Running, Succeeded or Failed. The jobs
// that started, or are due, first are the first ones; of the jobs that have ended, those that ended last.
// Queued and Scheduled include jobs that wait for a retry, and Failed includes cancelled jobs.
// JobInfo.State tells them apart.
func (m *Manager) List(ctx context.Context, state State, limit int) ([]*JobInfo, error) {
	states := listed[state]
	if states == nil {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "jobs can be listed by the status queued, scheduled, running, succeeded or failed")
	}
	if limit < 1 {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the limit %d is less than 1", limit)
	}
	infos := []*JobInfo{}
	for _, each := range states {
		jobs, err := m.queue.Jobs(ctx, bullmq.Page{Limit: limit - len(infos), Ascending: !state.Ended()}, each)
		if err != nil {
			return nil, refusal(ctx, "", err)
		}
		for _, job := range jobs {
			infos = append(infos, infoOf(job, lifecycle(job, each)))
		}
		if len(infos) >= limit {
			break
		}
	}
	return infos, nil
}

// Cancel cancels a job, whether it waits or a worker has it. It is no error if the job is cancelled
// already. If the job has ended otherwise, Cancel returns [ErrWrongStatus].
//
// A job that waits is moved to the front of the queue, and ends when the next worker, of either library,
// takes it. The worker that has claimed a job learns of it by [Manager.Extend].
func (m *Manager) Cancel(ctx context.Context, id, reason string) error {
	if err := checkID(id); err != nil {
		return err
	}
	outcome, err := m.queue.Cancel(ctx, id, reason)
	if err != nil || outcome != bullmq.CancelFinished {
		return refusal(ctx, id, err)
	}
	job, state, err := m.queue.JobAndState(ctx, id)
	if err != nil {
		return refusal(ctx, id, err)
	}
	if ended := lifecycle(job, state); ended != Cancelled {
		return conflict(CodeWrongStatus, id, "the job has %s", ended).by(bullmq.ErrNotInState)
	}
	return nil
}

// Remove removes a job, in any state. A job that a worker has is not removed; the error is then
// [ErrAlreadyAssigned].
func (m *Manager) Remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	return refusal(ctx, id, m.queue.Remove(ctx, id, nil))
}

// SchedulingStrategy selects up to most scheduled jobs that are to start now. Its error is returned as it is
// if it is a [*Problem], and otherwise as [ErrUnavailable].
type SchedulingStrategy func(ctx context.Context, queue *bullmq.Queue, now time.Time, most int) ([]*bullmq.Job, error)

// DueJobs is the SchedulingStrategy that selects the jobs whose time has come, the earliest first. Claims,
// and workers of BullMQ, take such jobs in any case.
func DueJobs(ctx context.Context, queue *bullmq.Queue, now time.Time, most int) ([]*bullmq.Job, error) {
	return DueWithin(0)(ctx, queue, now, most)
}

// DueWithin returns a SchedulingStrategy that selects the jobs whose time comes within a duration from
// now, the earliest first. It also selects those whose time has come.
func DueWithin(ahead time.Duration) SchedulingStrategy {
	return func(ctx context.Context, queue *bullmq.Queue, now time.Time, most int) ([]*bullmq.Job, error) {
		count, err := queue.CountDelayedBefore(ctx, now.Add(ahead))
		if err != nil || min(count, most) <= 0 {
			return nil, err
		}
		return queue.Jobs(ctx, bullmq.Page{Limit: min(count, most), Ascending: true}, bullmq.StateDelayed)
	}
}

// Due returns up to limit scheduled jobs that are due, as ManagerOptions.Schedule selects them.
func (m *Manager) Due(ctx context.Context, limit int) ([]*JobInfo, error) {
	jobs, err := m.due(ctx, limit)
	if err != nil {
		return nil, err
	}
	infos := []*JobInfo{}
	for _, job := range jobs {
		infos = append(infos, infoOf(job, lifecycle(job, bullmq.StateDelayed)))
	}
	return infos, nil
}

func (m *Manager) due(ctx context.Context, limit int) ([]*bullmq.Job, error) {
	if limit < 1 {
		return nil, problem(http.StatusBadRequest, CodeInvalidRequest, "the limit %d is less than 1", limit)
	}
	jobs, err := m.o.Schedule(ctx, m.queue, m.o.Fetcher.Now(), limit)
	return jobs, refusal(ctx, "", err)
}

// StartDue makes the jobs that Due would return ready at once, and returns their ids. Jobs whose time has
// come need no such call, as claims take them. It is for a Schedule that starts jobs early.
func (m *Manager) StartDue(ctx context.Context, limit int) (jobIDs []string, err error) {
	jobs, err := m.due(ctx, limit)
	if err != nil {
		return nil, err
	}
	jobIDs = []string{}
	for _, job := range jobs {
		switch err := m.queue.JobRef(job.ID).Promote(ctx); {
		case errors.Is(err, bullmq.ErrNotInState), errors.Is(err, bullmq.ErrJobNotFound): // it has started, or is removed
		case err != nil:
			return jobIDs, refusal(ctx, job.ID, err)
		default:
			jobIDs = append(jobIDs, job.ID)
		}
	}
	return jobIDs, nil
}

// Stats counts the jobs of a queue.
type Stats struct {
	Queued          int `json:"queued"`    // ready: waiting and prioritized
	Scheduled       int `json:"scheduled"` // delayed, and waiting for a retry
	Running         int `json:"running"`
	WaitingChildren int `json:"waitingChildren"` // of a flow
	Completed       int `json:"completed"`
	Failed          int `json:"failed"`    // without Cancelled
	Cancelled       int `json:"cancelled"` // among the Examined jobs
	// Examined is how many failed jobs were examined, the newest ones. Cancelled jobs that are older
	// count as Failed.
	Examined int `json:"examined"`
}

// examined is how many failed jobs Stats reads at a time.
const examined = 100

// Stats counts the jobs of the queue, those of other clients too. BullMQ keeps cancelled jobs among the
// failed ones, so Stats examines the newest failed ones; see ManagerOptions.ExamineFailed.
func (m *Manager) Stats(ctx context.Context) (Stats, error) {
	counts, err := m.queue.Counts(ctx)
	if err != nil {
		return Stats{}, refusal(ctx, "", err)
	}
	stats := Stats{
		Queued:    counts[bullmq.StateWaiting] + counts[bullmq.StatePaused] + counts[bullmq.StatePrioritized],
		Scheduled: counts[bullmq.StateDelayed], Running: counts[bullmq.StateActive], WaitingChildren: counts[bullmq.StateWaitingChildren],
		Completed: counts[bullmq.StateCompleted], Failed: counts[bullmq.StateFailed],
	}
	if stats.Failed == 0 || m.o.ExamineFailed < 0 {
		return stats, nil
	}
	for most := min(stats.Failed, m.o.ExamineFailed); stats.Examined < most; { // a page at a time, since jobs may be large
		page := bullmq.Page{Offset: stats.Examined, Limit: min(examined, most-stats.Examined)}
		jobs, err := m.queue.Jobs(ctx, page, bullmq.StateFailed)
		if err != nil {
			return Stats{}, refusal(ctx, "", err)
		}
		for _, job := range jobs {
			if _, cancelled := job.Cancelled(); cancelled {
				stats.Cancelled++
				stats.Failed--
			}
		}
		if stats.Examined += len(jobs); len(jobs) < page.Limit {
			break
		}
	}
	return stats, nil
}

// CleanUp removes the jobs in the state Succeeded or Failed that ended longer ago than age, and returns
// how many they were. Failed includes cancelled jobs.
func (m *Manager) CleanUp(ctx context.Context, state State, age time.Duration) (int, error) {
	if age < 0 || state != Succeeded && state != Failed {
		return 0, problem(http.StatusBadRequest, CodeInvalidRequest, "jobs with the status succeeded or failed can be cleaned up, by an age of 0 or more")
	}
	removed, err := m.queue.Clean(ctx, &bullmq.CleanOptions{State: listed[state][0], Grace: age.Truncate(time.Millisecond)})
	return len(removed), refusal(ctx, "", err)
}
