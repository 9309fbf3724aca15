package bullmqtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

func TestRequireAddedFindsJobsInEveryState(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		queue := kit.Queue("mail")
		must(Welcome.Add(t.Context(), queue, Email{To: "ada"}, &bullmq.JobOptions{Delay: time.Hour, Priority: 4, JobID: "w-ada"}))
		bob := must(Welcome.Add(t.Context(), queue, Email{To: "bob", Order: 7}, nil))
		bullmqtest.WorkJob(t, kit, bullmq.NewMux().ServeJob, Welcome, bob, nil)

		added := bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{
			Data: Email{To: "ada"}, Delay: time.Hour, Priority: 4, Attempts: 3, JobID: "w-ada",
		})
		equal(t, "payload", added.Payload.To, "ada")
		bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{Data: map[string]any{"order": 7, "to": "bob"}})
		bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{Delay: 59 * time.Minute, Within: time.Minute})
		bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{Times: 2})
		bullmqtest.RequireAdded(t, kit, "mail", Welcome, bullmqtest.Match{
			Where: func(job *bullmq.Job) bool { return job.FailedReason != "" },
		})
		bullmqtest.RequireNotAdded(t, kit, "mail", Welcome, bullmqtest.Match{Data: Email{To: "eve"}})
		bullmqtest.RequireNotAdded(t, kit, "mail", Report, bullmqtest.Match{})
		equal(t, "added", len(bullmqtest.Added(t, kit, "mail", Welcome)), 2)
	})
}

func TestRequireAddedShowsTheDifferencesAndWhatWasAdded(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		queue := kit.Queue("mail")
		must(Welcome.Add(t.Context(), queue, Email{To: "bob", Order: 7}, nil))
		must(Welcome.Add(t.Context(), queue, Email{To: "<ada>"}, &bullmq.JobOptions{Delay: time.Minute}))
		must(Report.Add(t.Context(), queue, Email{}, nil))
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.RequireAdded(tb, kit, "mail", Welcome, bullmqtest.Match{Data: Email{To: "<ada>", Order: 1}, Delay: time.Minute})
		},
			`no job like this was added to queue mail: "welcome", {"to":"<ada>","order":1}, delay 1m0s`,
			"the nearest is job 2:\n  data.order: missing, want 1\n",
			"added to queue mail:\n", `  1 "welcome" {"to":"bob","order":7} {"attempts":3,`, "\n  3 \"report\" {\"to\":\"\"}")
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.RequireAdded(tb, kit, "mail", Welcome, bullmqtest.Match{Times: 1})
		}, `2 jobs like this were added to queue mail, want 1: "welcome"`)
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.RequireAdded(tb, kit, "male", Welcome, bullmqtest.Match{})
		}, "no job was added to queue male; queues with jobs: mail (3)")
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.RequireNotAdded(tb, kit, "mail", Report, bullmqtest.Match{})
		}, "a job like this was added to queue mail: \"report\"\n  3 \"report\"")
	})
}

func TestRequireAddedInOrderFollowsTheOrderOfAdds(t *testing.T) {
	onEach(t, func(t *testing.T, kit *bullmqtest.Kit) {
		queue := kit.Queue("mail")
		for _, id := range []string{"z", "a", "m"} {
			must(Welcome.Add(t.Context(), queue, Email{To: id}, &bullmq.JobOptions{JobID: id, LIFO: id == "a"}))
		}
		must(Report.Add(t.Context(), queue, Email{}, &bullmq.JobOptions{Delay: time.Second}))
		to := func(id string) bullmqtest.Expected {
			return bullmqtest.Expect(Welcome, bullmqtest.Match{Data: Email{To: id}})
		}
		bullmqtest.RequireAddedInOrder(t, kit, "mail", to("z"), to("a"), to("m"), bullmqtest.Expect(Report, bullmqtest.Match{}))
		bullmqtest.RequireAddedInOrder(t, kit, "mail", to("z"), to("m"))
		expectFailure(t, func(tb testing.TB) {
			bullmqtest.RequireAddedInOrder(tb, kit, "mail", to("z"), to("m"), to("a"))
		}, `no job like expected job 3 of 3 was added to queue mail after the 2 before it: "welcome", {"to":"a"}`)
		var ids []string
		for _, job := range bullmqtest.Added(t, kit, "mail", Welcome) {
			ids = append(ids, job.ID)
		}
		equal(t, "order", strings.Join(ids, " "), "z a m")
	})
}

func TestAddedFailsTheTestIfDataDoesNotFit(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	must(kit.Queue("mail").Add(t.Context(), "welcome", map[string]any{"to": 5}, nil))
	expectFailure(t, func(tb testing.TB) { bullmqtest.Added(tb, kit, "mail", Welcome) }, "$.to")
}
