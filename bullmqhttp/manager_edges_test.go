package bullmqhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

// set changes a field of a stored job, as a producer of another library may have written it.
func (m *managed) set(id, field, value string) {
	GinkgoHelper()
	command(redis, "EVAL", "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 'done'", "1", "bull:"+m.queue.Name()+":"+id, field, value)
}

var _ = Describe("A manager", func() {
	ctx := context.Background()

	It("refuses durations that are shorter than a millisecond, which would mean none", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		for call, fields := range map[string]string{"/extend": `,"by":0.0001`, "/fail": `,"retryAfter":4e-4`, "/release": `,"wait":0.0004`} {
			a := m.post("anna", path+call, with(claim, fields))
			expectRefused(a, http.StatusBadRequest, bullmqhttp.CodeInvalidRequest, call)
			Expect(a.body).To(ContainSubstring("0.001"))
		}
		expectRefused(m.post("anna", "/claims", `{"wait":0.0001}`), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest)
		expectRefused(m.post("", "/cleanup", `{"status":"failed","olderThan":1e-9}`), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest)
		expectRefused(m.post("", "/jobs", `{"name":"report","delay":1e-300}`), http.StatusBadRequest, bullmqhttp.CodeInvalidJob)
		Expect(m.post("anna", path+"/extend", with(claim, `,"by":0`)).status).To(Equal(http.StatusOK))
		Expect(m.post("anna", path+"/release", with(claim, `,"wait":0`)).status).To(Equal(http.StatusNoContent))
		Expect(m.get(claim.JobID).State).To(Equal(bullmqhttp.Queued))
	})

	It("accepts JSON whose content type has parameters, and no other type with a parameter like JSON", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for _, contentType := range []string{"application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"} {
			a := m.do("POST", "/manage/jobs", `{"name":"report"}`, "Content-Type", contentType)
			Expect(a.status).To(Equal(http.StatusCreated), contentType+": "+a.body)
		}
		for _, contentType := range []string{"text/plain; a=+json", "text/plain;+json"} { // which a form of another site can send
			a := m.do("POST", "/manage/jobs", `{"name":"report"}`, "Content-Type", contentType)
			expectRefused(a, http.StatusUnsupportedMediaType, bullmqhttp.CodeUnsupportedType, contentType)
		}
		Expect(m.jobs()).To(Equal(3))
	})

	It("shows and claims jobs whose times JSON can't hold, without these times", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		job, later := m.add(1, nil), m.add(2, &bullmq.JobOptions{Delay: time.Hour})
		m.set(job.ID, "timestamp", "1000000000000000")
		m.set(later.ID, "timestamp", "-1000000000000000")
		m.set(later.ID, "delay", "1000000000000000")
		Expect(m.read("/jobs/" + job.ID).info().Created.IsZero()).To(BeTrue())
		Expect(m.read("/jobs?status=queued").infos()).To(HaveLen(1))
		Expect(m.read("/jobs/" + later.ID).info().State).To(Equal(bullmqhttp.Scheduled))
		Expect(m.read("/jobs?status=scheduled").infos()).To(HaveLen(1))
		claim := m.take("anna")
		Expect(claim.JobID).To(Equal(job.ID))
		Expect(claim.Job.Created.IsZero()).To(BeTrue())
		Expect(m.post("anna", "/jobs/"+job.ID+"/succeed", with(claim, "")).info().State).To(Equal(bullmqhttp.Succeeded))
	})

	It("has a Retry-After of seconds from 1 even if a retry is due in centuries", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		claim := m.take("anna")
		Expect(m.post("anna", "/jobs/"+claim.JobID+"/release", with(claim, `,"wait":60`)).status).To(Equal(http.StatusNoContent))
		m.set(claim.JobID, "delay", "9223372036854")
		a := m.post("anna", "/jobs/"+claim.JobID+"/succeed", with(claim, ""))
		expectRefused(a, http.StatusConflict, bullmqhttp.CodeRetryDelay)
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		Expect(err).NotTo(HaveOccurred())
		Expect(seconds).To(BeNumerically(">=", 1))
	})

	It("claims nothing for a context that has ended", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.none("anna") // connects
		job := m.add(1, nil)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := m.m.Claim(ended, "anna", 1, time.Hour)
		Expect(err).To(MatchError(context.Canceled))
		Expect(m.get(job.ID).State).To(Equal(bullmqhttp.Queued))
	})

	It("adds nothing for a context that has ended", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := m.m.Submit(ended, "report", 1, nil)
		Expect(err).To(MatchError(context.Canceled))
		Expect(m.jobs()).To(BeZero())
	})

	It("stops failing jobs that can't run when the context of a claim ends", func() {
		const jobs = 200
		direct := aside(fmt.Sprint("manager-", queues.Add(1)))
		for range jobs {
			direct.set(direct.add(1, nil).ID, "data", "{")
		}
		proxy, m := direct.through(bullmqhttp.ManagerOptions{})
		direct.add(2, nil)
		Expect(proxy.Set(faultproxy.Faults{Delay: 20 * time.Millisecond})).To(Succeed())
		ending, cancel := context.WithCancel(ctx)
		go func() {
			defer GinkgoRecover()
			defer cancel()
			Eventually(func() (int, error) {
				stats, err := direct.m.Stats(ctx)
				return stats.Failed, err
			}, "20s").Should(BeNumerically(">", 1))
		}()
		_, err := m.m.Claim(ending, "anna", 1, 0)
		Expect(err).To(MatchError(context.Canceled))
		stats, err := direct.m.Stats(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(stats.Failed).To(BeNumerically("<", jobs))
	})
})

var _ = Describe("A submit whose reply is lost", func() {
	ctx := context.Background()

	It("does not add the job again, which may have run and been removed", func() {
		direct := aside(fmt.Sprint("manager-", queues.Add(1)))
		proxy, m := direct.through(bullmqhttp.ManagerOptions{})
		m.add(1, nil) // the script is loaded
		m.succeed("anna")
		hangs := proxy.HangReply("EVALSHA")
		removed := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(removed)
			Eventually(hangs, "20s").Should(BeClosed())
			Eventually(func() ([]*bullmqhttp.JobInfo, error) { return direct.m.List(ctx, bullmqhttp.Queued, 1) }, "20s").Should(HaveLen(1))
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			Expect(direct.m.Remove(ctx, "invoice-7")).To(Succeed())
			Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		}()
		_, err := m.m.Submit(ctx, "report", 2, &bullmq.JobOptions{JobID: "invoice-7"})
		Eventually(removed, "20s").Should(BeClosed())
		Expect(err).To(MatchError(bullmqhttp.ErrMaybeAdded))
		Expect(direct.m.List(ctx, bullmqhttp.Queued, 1)).To(BeEmpty())
	})

	It("does not take a job for its own that existed before", func() {
		direct := aside(fmt.Sprint("manager-", queues.Add(1)))
		proxy, m := direct.through(bullmqhttp.ManagerOptions{})
		m.add("theirs", &bullmq.JobOptions{JobID: "invoice-7"})
		lost := proxy.LoseReply("EVALSHA")
		_, err := m.m.Submit(ctx, "report", "ours", &bullmq.JobOptions{JobID: "invoice-7"})
		Eventually(lost, "20s").Should(BeClosed())
		Expect(err).To(MatchError(bullmqhttp.ErrJobExists))
		Expect(string(direct.get("invoice-7").Data)).To(Equal(`"theirs"`))
	})

	It("returns the job in the state that it has", func() {
		direct := aside(fmt.Sprint("manager-", queues.Add(1)))
		proxy, m := direct.through(bullmqhttp.ManagerOptions{})
		m.add(1, nil) // the scripts are loaded
		m.add(1, &bullmq.JobOptions{Delay: time.Hour})
		for _, delay := range []time.Duration{0, time.Hour} {
			lost := proxy.LoseReply("EVALSHA")
			job, err := m.m.Submit(ctx, "report", strings.Repeat("x", 10), &bullmq.JobOptions{Delay: delay})
			Eventually(lost, "20s").Should(BeClosed())
			Expect(err).NotTo(HaveOccurred())
			Expect(job).To(Equal(direct.get(job.ID)))
		}
		Expect(direct.jobs()).To(Equal(4))
	})
})
