package bullmqtest

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testjob"
)

// RecordedJob is a job for the unit test of a handler. It records what the handler reports
// and needs no Redis.
//
// It records calls of UpdateProgress, UpdateData, Log and ClearLogs, and the lines of
// [bullmq.LoggerFromContext]. Other methods that act on Redis return [bullmq.ErrNoQueue]. Test
// a handler that uses them with [Work].
type RecordedJob struct {
	*bullmq.Job
	ctx context.Context
	r   *recorder
}

// NewJob returns a job as a worker passes it to its handler in the first attempt. Its data and
// options are encoded as JSON and decoded again. You may change its fields, for instance
// AttemptsMade. The job belongs to a queue named "test". options may be nil.
//
// NewJob fails the test if [bullmq.Queue.Add] would refuse the job. If the test fails for any
// reason, the lines of the handler's logger are printed.
func NewJob[D, R any](t testing.TB, jobType *bullmq.JobType[D, R], data D, options *bullmq.JobOptions) *RecordedJob {
	t.Helper()
	r := &recorder{}
	r.logger = slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}))
	bulk := jobType.Bulk(data, options)
	made, err := testjob.New(testjob.Spec{
		ID: "1", QueueName: "test", Name: bulk.Name, Data: bulk.Data, Options: bulk.Options,
		Now: time.Now().Truncate(time.Millisecond), Recorder: r,
	})
	if err != nil {
		t.Fatalf("bullmqtest: %v", err)
	}
	job, _ := made.(*bullmq.Job)
	t.Cleanup(func() {
		if lines := r.snapshot(&r.lines); t.Failed() && len(lines) > 0 {
			t.Logf("the handler of job %s (%s) has logged:\n%s", job.ID, job.Name, strings.Join(lines, "\n"))
		}
	})
	return &RecordedJob{Job: job, ctx: bullmq.ContextWithJob(t.Context(), job), r: r}
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Context returns the context for the handler. It has the job, and ends with the test.
func (j *RecordedJob) Context() context.Context { return j.ctx }

// ProgressReports returns the values given to UpdateProgress, as JSON.
func (j *RecordedJob) ProgressReports() []json.RawMessage {
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	return slices.Clone(j.r.progress)
}

// LogRows returns the rows of the job's log, the oldest first.
func (j *RecordedJob) LogRows() []string { return j.r.snapshot(&j.r.rows) }

// LoggerLines returns the lines of the logger of [bullmq.LoggerFromContext], in the format
// of [slog.TextHandler] without the time.
func (j *RecordedJob) LoggerLines() []string { return j.r.snapshot(&j.r.lines) }

// recorder implements [testjob.Recorder].
type recorder struct {
	logger *slog.Logger

	mu       sync.Mutex
	progress []json.RawMessage
	rows     []string
	lines    []string
}

func (r *recorder) snapshot(list *[]string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(*list)
}

// UpdateProgress implements [testjob.Recorder].
func (r *recorder) UpdateProgress(ctx context.Context, _, progress string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.progress = append(r.progress, json.RawMessage(progress))
	return nil
}

// UpdateData implements [testjob.Recorder]. It stores nothing, because the job has its data in
// a field.
func (r *recorder) UpdateData(ctx context.Context, _, _ string) error { return context.Cause(ctx) }

// AddLog implements [testjob.Recorder].
func (r *recorder) AddLog(ctx context.Context, _, row string, keep int) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	r.rows = append(r.rows, row)
	if keep > 0 {
		r.keep(keep)
	}
	return len(r.rows), nil
}

// ClearLogs implements [testjob.Recorder].
func (r *recorder) ClearLogs(ctx context.Context, _ string, keep int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.keep(keep)
	return nil
}

func (r *recorder) keep(n int) { r.rows = r.rows[max(0, len(r.rows)-n):] }

// Logger implements [testjob.Recorder].
func (r *recorder) Logger() *slog.Logger { return r.logger }

// Write implements [io.Writer]. The logger calls it once a line.
func (r *recorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, string(bytes.TrimRight(line, "\n")))
	return len(line), nil
}
