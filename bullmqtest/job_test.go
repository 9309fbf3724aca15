package bullmqtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

// send is a handler to test.
func send(ctx context.Context, job *bullmq.Job, email Email) (Receipt, error) {
	log := bullmq.LoggerFromContext(ctx)
	if err := bullmq.UpdateProgress(ctx, map[string]int{"percent": 50}); err != nil {
		return Receipt{}, err
	}
	if _, err := job.Log(ctx, "connected"); err != nil {
		return Receipt{}, err
	}
	log.Info("sent", "to", email.To)
	return Receipt{"r" + job.ID}, job.UpdateProgress(ctx, 100)
}

func TestNewJobRecordsWhatAHandlerReports(t *testing.T) {
	noLeaks(t)
	job := bullmqtest.NewJob(t, Welcome, Email{To: "ada"}, &bullmq.JobOptions{Priority: 2})
	receipt, err := send(job.Context(), job.Job, must(Welcome.Data(job.Job)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "receipt", receipt, Receipt{"r1"})
	equal(t, "progress", fmt.Sprintf("%s", job.ProgressReports()), `[{"percent":50} 100]`)
	equal(t, "the job's progress", string(job.Progress), "100")
	equalAll(t, "log rows", job.LogRows(), "connected")
	equalAll(t, "logger lines", job.LoggerLines(), "level=INFO msg=sent to=ada")
	equal(t, "priority", job.Options.Priority, 2)
	equal(t, "attempts", job.Options.Attempts, 3)
	equal(t, "data", string(job.Data), `{"to":"ada"}`)
	equal(t, "queue", job.QueueName(), "test")
	equal(t, "job in the context", bullmq.JobFromContext(job.Context()), job.Job)
}

func TestNewJobRunsThroughAMux(t *testing.T) {
	mux := bullmq.NewMux()
	bullmq.Handle(mux, Welcome, send)
	job := bullmqtest.NewJob(t, Welcome, Email{To: "ada"}, nil)
	value := must(mux.ServeJob(job.Context(), job.Job))
	equal(t, "value", value.(Receipt), Receipt{"r1"})
}

func TestNewJobKeepsTheNewestLogRowsAndNewData(t *testing.T) {
	job := bullmqtest.NewJob(t, Welcome, Email{To: "ada"}, &bullmq.JobOptions{KeepLogs: 2})
	for i := range 3 {
		equal(t, "rows", must(job.Log(t.Context(), fmt.Sprint(i))), min(i+1, 2))
	}
	equalAll(t, "log rows", job.LogRows(), "1", "2")
	if err := errors.Join(job.ClearLogs(t.Context(), nil), job.UpdateData(t.Context(), Email{To: "bob"})); err != nil {
		t.Fatal(err)
	}
	equalAll(t, "log rows", job.LogRows())
	equal(t, "data", must(Welcome.Data(job.Job)).To, "bob")
}

func TestNewJobRefusesWhatNeedsRedis(t *testing.T) {
	job := bullmqtest.NewJob(t, Welcome, Email{}, nil)
	_, err := job.State(t.Context())
	if !errors.Is(err, bullmq.ErrNoQueue) || !strings.Contains(err.Error(), "bullmqtest.Work") {
		t.Errorf("the error is %v", err)
	}
	expectFailure(t, func(tb testing.TB) {
		bullmqtest.NewJob(tb, Welcome, Email{}, &bullmq.JobOptions{Priority: -1})
	}, "Priority")
}

func TestRequireWireComparesAJobWithItsFile(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		options := &bullmq.JobOptions{KeepCompleted: bullmq.KeepNone()}
		bullmqtest.RequireWire(t, bullmqtest.NewJob(t, Welcome, Email{To: "ada <a@b.org>"}, options).Job, "testdata/welcome.json")
		must(Welcome.Add(t.Context(), kit.Queue("mail"), Email{To: "ada <a@b.org>"}, options))
		bullmqtest.RequireWire(t, bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{}).Job, "testdata/welcome.json")
	})
	if os.Getenv(bullmqtest.UpdateVariable) != "" {
		return
	}
	expectFailure(t, func(tb testing.TB) {
		bullmqtest.RequireWire(tb, bullmqtest.NewJob(tb, Welcome, Email{To: "bob", Order: 2}, &bullmq.JobOptions{Attempts: 4}).Job, "testdata/welcome.json")
	}, "not as testdata/welcome.json describes it", `job.data.order: 2, want none`, `job.data.to: "bob", want "ada <a@b.org>"`,
		"job.opts.attempts: 4, want 3", "job.opts.removeOnComplete: missing, want", "BULLMQTEST_UPDATE=1")
}

func TestRequireWireWritesItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wire", "welcome.json")
	job := bullmqtest.NewJob(t, Welcome, Email{To: "ada"}, nil).Job
	expectFailure(t, func(tb testing.TB) { bullmqtest.RequireWire(tb, job, file) }, "there is no file", "BULLMQTEST_UPDATE=1")
	t.Setenv(bullmqtest.UpdateVariable, "1")
	bullmqtest.RequireWire(t, job, file)
	t.Setenv(bullmqtest.UpdateVariable, "")
	bullmqtest.RequireWire(t, job, file)
	// The order of members and spaces do not count.
	text := string(must(os.ReadFile(file)))
	text = strings.ReplaceAll(text, "\n", "")
	text = strings.Replace(text, `"name": "welcome",`, "", 1)
	text = strings.TrimSuffix(text, "}") + `, "name": "welcome"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	bullmqtest.RequireWire(t, job, file)
}
