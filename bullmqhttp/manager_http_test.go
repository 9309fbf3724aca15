package bullmqhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// route is one of the calls below /manage, with a body that is valid.
type route struct {
	method, path, body string
	action             bullmqhttp.Action
}

// token is one that a manager may have made.
const token = `{"token":"AAAAAAAAAAAAAAAAAAAAAA.anna"}`

// routes are all calls, with the id "none" for a job.
var routes = []route{
	{"POST", "/jobs", `{"name":"report"}`, bullmqhttp.ActionSubmit},
	{"GET", "/jobs?status=queued", "", bullmqhttp.ActionRead},
	{"GET", "/jobs/none", "", bullmqhttp.ActionRead},
	{"DELETE", "/jobs/none", "", bullmqhttp.ActionManage},
	{"POST", "/jobs/none/cancel", `{"reason":"x"}`, bullmqhttp.ActionCancel},
	{"POST", "/claims", `{"max":2}`, bullmqhttp.ActionWork},
	{"POST", "/jobs/none/extend", token, bullmqhttp.ActionWork},
	{"POST", "/jobs/none/succeed", token, bullmqhttp.ActionWork},
	{"POST", "/jobs/none/fail", token, bullmqhttp.ActionWork},
	{"POST", "/jobs/none/release", token, bullmqhttp.ActionWork},
	{"GET", "/claims/stale", "", bullmqhttp.ActionRead},
	{"POST", "/claims/stale", "", bullmqhttp.ActionManage},
	{"GET", "/due", "", bullmqhttp.ActionRead},
	{"POST", "/due", "", bullmqhttp.ActionManage},
	{"GET", "/stats", "", bullmqhttp.ActionRead},
	{"POST", "/cleanup", `{"status":"failed","olderThan":60}`, bullmqhttp.ActionManage},
}

// call sends the request of a route as the worker anna.
func (m *managed) call(r route) answer {
	GinkgoHelper()
	return m.do(r.method, "/manage"+r.path, r.body, "Content-Type", "application/json", "Worker", "anna")
}

// read gets a path.
func (m *managed) read(path string) answer {
	GinkgoHelper()
	return m.do("GET", "/manage"+path, "")
}

// info returns the job in a reply.
func (a answer) info() (job bullmqhttp.JobInfo) {
	GinkgoHelper()
	Expect(a.status).To(BeElementOf(http.StatusOK, http.StatusCreated), a.body)
	Expect(a.header.Get("Content-Type")).To(Equal("application/json"))
	a.decode(&job)
	return job
}

// infos returns the jobs in a reply.
func (a answer) infos() []bullmqhttp.JobInfo {
	GinkgoHelper()
	var list struct{ Jobs []bullmqhttp.JobInfo }
	Expect(a.status).To(Equal(http.StatusOK), a.body)
	a.decode(&list)
	Expect(list.Jobs).NotTo(BeNil())
	return list.Jobs
}

// ids returns the ids in a reply.
func (a answer) ids() []string {
	GinkgoHelper()
	var list struct{ IDs []string }
	Expect(a.status).To(Equal(http.StatusOK), a.body)
	a.decode(&list)
	Expect(list.IDs).NotTo(BeNil())
	return list.IDs
}

// claims returns the claims in a reply.
func (a answer) claims() []bullmqhttp.Claim {
	GinkgoHelper()
	var list struct{ Claims []bullmqhttp.Claim }
	Expect(a.status).To(Equal(http.StatusOK), a.body)
	a.decode(&list)
	Expect(list.Claims).NotTo(BeNil())
	return list.Claims
}

// with returns a body with the token of a claim, and other fields.
func with(c bullmqhttp.Claim, fields string) string {
	return `{"token":` + strconv.Quote(c.Token) + fields + `}`
}

// take claims a job by HTTP.
func (m *managed) take(worker string) bullmqhttp.Claim {
	GinkgoHelper()
	claims := m.post(worker, "/claims", `{"wait":20}`).claims()
	Expect(claims).To(HaveLen(1))
	return claims[0]
}

// abandon sends a claim of the worker anna, disconnects once it has arrived, and returns when the manager is done
// with it.
func (m *managed) abandon(body string, arrived <-chan struct{}) {
	GinkgoHelper()
	served := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.m.ServeHTTP(w, r)
		close(served)
	}))
	DeferCleanup(web.Close)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	go func() {
		select {
		case <-arrived:
		case <-time.After(20 * time.Second):
		}
		leave()
	}()
	r, err := http.NewRequestWithContext(ctx, "POST", web.URL+"/manage/claims", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Worker", "anna")
	_, err = m.client.Do(r)
	Expect(err).To(MatchError(context.Canceled))
	Eventually(served, "20s").Should(BeClosed()) // before the wait of the claim is over
}

var _ = Describe("A manager over HTTP", func() {
	It("accepts JSON whose type has parameters", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		a := m.do("POST", "/manage/jobs", `{"name":"report"}`, "Content-Type", "application/json; charset=utf-8")
		Expect(a.status).To(Equal(http.StatusCreated), a.body)
	})

	ctx := context.Background()

	It("submits, shows, lists and removes jobs", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		a := m.post("", "/jobs", `{"id":"a/ü 1","name":"report","data":{"n":1,"x":"<&>"},"delay":3600,"priority":3,"attempts":2,"backoff":{"type":"fixed","delay":0.5}}`)
		Expect(a.status).To(Equal(http.StatusCreated))
		Expect(a.header.Get("Location")).To(Equal("/manage/jobs/a%2F%C3%BC%201"))
		Expect(a.header.Get("Cache-Control")).To(Equal("no-store"))
		submitted := a.info()
		Expect(submitted.ID).To(Equal("a/ü 1"))
		Expect(submitted.State).To(Equal(bullmqhttp.Scheduled))
		Expect(submitted.Due).To(Equal(submitted.Created.Add(time.Hour)))
		stored, err := m.queue.Job(ctx, "a/ü 1")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(stored.Data)).To(Equal(`{"n":1,"x":"<&>"}`))
		Expect(stored.Options.Backoff.Type).To(Equal("fixed"))
		Expect(stored.Options.Backoff.Delay).To(Equal(500 * time.Millisecond))
		Expect([]int{stored.Options.Attempts, stored.Priority}).To(Equal([]int{2, 3}))

		shown := m.do("GET", a.header.Get("Location"), "")
		Expect(shown.info()).To(Equal(submitted))
		head := m.do("HEAD", a.header.Get("Location"), "")
		Expect(head.status).To(Equal(http.StatusOK))
		Expect(head.header.Get("Content-Length")).To(Equal(strconv.Itoa(len(shown.body))))

		for range 3 {
			Expect(m.post("", "/jobs", `{"name":"report"}`).info().State).To(Equal(bullmqhttp.Queued))
		}
		Expect(m.read("/jobs?status=scheduled").infos()).To(Equal([]bullmqhttp.JobInfo{submitted}))
		Expect(m.read("/jobs?status=queued").infos()).To(HaveLen(3))
		Expect(m.read("/jobs?status=queued&limit=2").infos()).To(HaveLen(2))
		Expect(m.read("/jobs?status=failed").infos()).To(BeEmpty())

		Expect(m.do("DELETE", a.header.Get("Location"), "").status).To(Equal(http.StatusNoContent))
		Expect(m.do("GET", a.header.Get("Location"), "").code()).To(Equal(bullmqhttp.CodeJobNotFound))
	})

	It("lets a worker claim jobs, extend a claim, and end it with a result", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for range 3 {
			m.post("", "/jobs", `{"name":"report","data":[1]}`)
		}
		claims := m.post("anna", "/claims", `{"max":2}`).claims()
		Expect(claims).To(HaveLen(2))
		Expect(claims[0].Worker).To(Equal("anna"))
		Expect(claims[0].Job.State).To(Equal(bullmqhttp.Running))
		Expect(string(claims[0].Job.Data)).To(Equal(`[1]`))
		Expect(m.post("berta", "/claims", "").claims()).To(HaveLen(1))
		Expect(m.post("berta", "/claims", `{"wait":0.05}`).claims()).To(BeEmpty())
		path := "/jobs/" + claims[0].JobID
		Expect(m.read(path).body).NotTo(ContainSubstring(claims[0].Token))

		var extended bullmqhttp.Claim
		a := m.post("anna", path+"/extend", with(claims[0], `,"by":1800,"progress":{"percent":40}`))
		Expect(a.status).To(Equal(http.StatusOK), a.body)
		a.decode(&extended)
		Expect(extended.Expires).To(BeTemporally("~", time.Now().Add(30*time.Minute), time.Minute))
		Expect(m.read(path).info().Progress).To(MatchJSON(`{"percent":40}`))

		ended := m.post("anna", path+"/succeed", with(claims[0], `,"result":{"url":"/r?a&b"}`)).info()
		Expect(ended.State).To(Equal(bullmqhttp.Succeeded))
		Expect(string(m.read(path).info().Result)).To(Equal(`{"url":"/r?a&b"}`))
		Expect(m.post("anna", "/jobs/"+claims[1].JobID+"/succeed", with(claims[1], "")).info().Result).To(MatchJSON("null"))
		Expect(m.read("/jobs?status=succeeded").infos()).To(HaveLen(2))
		Expect(m.read("/jobs?status=running").infos()).To(HaveLen(1))
	})

	It("lets a claim wait for a job", func() {
		m := manage(bullmqhttp.ManagerOptions{MaxWait: time.Minute})
		got := make(chan answer, 1)
		go func() {
			defer GinkgoRecover()
			got <- m.post("anna", "/claims", `{"wait":3600}`)
		}()
		Consistently(got, "100ms").ShouldNot(Receive())
		job := m.add(1, nil)
		var a answer
		Eventually(got, "20s").Should(Receive(&a))
		Expect(a.claims()[0].JobID).To(Equal(job.ID))
	})

	It("fails an attempt, with a wait or for good", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.post("", "/jobs", `{"name":"report"}`)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		failed := m.post("anna", path+"/fail", with(claim, `,"reason":"busy","retryAfter":3600`)).info()
		Expect(failed.State).To(Equal(bullmqhttp.Retrying))
		Expect(failed.Due).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
		Expect([]int{failed.Attempts, failed.MaxAttempts}).To(Equal([]int{1, 4}))
		Expect(m.queue.JobRef(claim.JobID).Promote(ctx)).To(Succeed())
		claim = m.take("anna")
		Expect(claim.Job.Error).To(Equal("busy"))
		failed = m.post("anna", path+"/fail", with(claim, `,"reason":"hopeless","permanent":true`)).info()
		Expect(failed.State).To(Equal(bullmqhttp.Failed))
		Expect(m.read(path).info().Error).To(Equal("hopeless"))
	})

	It("gives a released job to the next worker, at once or later", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.post("", "/jobs", `{"name":"report"}`)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		Expect(m.post("anna", path+"/release", with(claim, "")).status).To(Equal(http.StatusNoContent))
		claim = m.take("berta")
		Expect(claim.Job.Attempts).To(BeZero())
		Expect(m.post("berta", path+"/release", with(claim, `,"wait":3600`)).status).To(Equal(http.StatusNoContent))
		Expect(m.post("anna", "/claims", "").claims()).To(BeEmpty())
	})

	It("cancels a job, and tells the worker that has it", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.post("", "/jobs", `{"name":"report"}`)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		for _, body := range []string{"", `{"reason":"not needed"}`} {
			a := m.post("", path+"/cancel", body)
			Expect(a.status).To(Equal(http.StatusAccepted))
			Expect(a.body).To(BeEmpty())
		}
		a := m.post("anna", path+"/extend", with(claim, ""))
		Expect(a.status).To(Equal(http.StatusGone))
		Expect(a.code()).To(Equal(bullmqhttp.CodeCancelled))
		ended := m.post("anna", path+"/fail", with(claim, `,"reason":"stopped"`)).info()
		Expect(ended.State).To(Equal(bullmqhttp.Cancelled))
		Expect(ended.Error).To(Equal("cancelled: not needed"))
	})

	It("lists stale claims, and makes their jobs ready again", func() {
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{StalledInterval: 50 * time.Millisecond}})
		m.post("", "/jobs", `{"name":"report"}`)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		Expect(m.read("/claims/stale").infos()).To(BeEmpty())
		Expect(m.post("anna", path+"/extend", with(claim, `,"by":0.05`)).status).To(Equal(http.StatusOK))
		var stale []bullmqhttp.JobInfo
		Eventually(func() []bullmqhttp.JobInfo {
			stale = m.read("/claims/stale?limit=5").infos()
			return stale
		}, "20s").Should(HaveLen(1))
		Expect(stale[0].ID).To(Equal(claim.JobID))
		Expect(stale[0].Worker).To(Equal("anna"))
		a := m.post("anna", path+"/succeed", with(claim, ""))
		Expect(a.status).To(Equal(http.StatusConflict))
		Expect(a.code()).To(Equal(bullmqhttp.CodeClaimExpired))

		Eventually(func() []string { return m.post("", "/claims/stale", "").ids() }, "20s").Should(Equal([]string{claim.JobID}))
		a = m.post("anna", path+"/succeed", with(claim, ""))
		Expect(a.code()).To(Equal(bullmqhttp.CodeWrongStatus))
		Expect(m.take("berta").JobID).To(Equal(claim.JobID))
		a = m.post("anna", path+"/succeed", with(claim, ""))
		Expect(a.status).To(Equal(http.StatusConflict))
		Expect(a.code()).To(Equal(bullmqhttp.CodeAlreadyAssigned))
	})

	It("lists the jobs that are due by its strategy, and starts them", func() {
		m := manage(bullmqhttp.ManagerOptions{Schedule: bullmqhttp.DueWithin(2 * time.Hour)})
		late := m.post("", "/jobs", `{"name":"report","delay":10800}`).info()
		soon := m.post("", "/jobs", `{"name":"report","delay":3600}`).info()
		Expect(m.read("/due?limit=10").infos()).To(Equal([]bullmqhttp.JobInfo{soon}))
		Expect(m.post("", "/due", "").ids()).To(Equal([]string{soon.ID}))
		Expect(m.read("/due").infos()).To(BeEmpty())
		Expect(m.take("anna").JobID).To(Equal(soon.ID))
		Expect(m.read("/jobs/" + late.ID).info().State).To(Equal(bullmqhttp.Scheduled))
	})

	It("counts jobs, and removes those that ended long ago", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for range 5 {
			m.post("", "/jobs", `{"name":"report"}`)
		}
		m.post("", "/jobs", `{"name":"report","delay":3600}`)
		claims := m.post("anna", "/claims", `{"max":4}`).claims()
		Expect(m.post("", "/jobs/"+claims[2].JobID+"/cancel", "").status).To(Equal(http.StatusAccepted))
		m.post("anna", "/jobs/"+claims[0].JobID+"/succeed", with(claims[0], ""))
		m.post("anna", "/jobs/"+claims[1].JobID+"/fail", with(claims[1], `,"permanent":true`))
		m.post("anna", "/jobs/"+claims[2].JobID+"/fail", with(claims[2], ""))
		Expect(m.read("/stats").body).To(MatchJSON(
			`{"queued":1,"scheduled":1,"running":1,"waitingChildren":0,"completed":1,"failed":1,"cancelled":1,"examined":2}`))

		Expect(m.post("", "/cleanup", `{"status":"failed","olderThan":3600}`).body).To(MatchJSON(`{"removed":0}`))
		Eventually(func() string { return m.post("", "/cleanup", `{"status":"succeeded","olderThan":0}`).body }, "20s").Should(MatchJSON(`{"removed":1}`))
		Eventually(func() string { return m.post("", "/cleanup", `{"status":"failed","olderThan":0}`).body }, "20s").Should(MatchJSON(`{"removed":2}`))
		Expect(m.jobs()).To(Equal(3))
	})

	It("has another base if its options name one", func() {
		m := manage(bullmqhttp.ManagerOptions{Base: "/v1/ä b/"})
		a := m.do("POST", "/v1/%C3%A4%20b/jobs", `{"name":"report"}`, "Content-Type", "application/json")
		Expect(a.status).To(Equal(http.StatusCreated), a.body)
		Expect(a.header.Get("Location")).To(Equal("/v1/%C3%A4%20b/jobs/" + a.info().ID))
		Expect(m.do("GET", a.header.Get("Location"), "").status).To(Equal(http.StatusOK))
		Expect(m.read("/stats").code()).To(Equal(bullmqhttp.CodeNotFound))
	})

	It("leaves the jobs ready, in their order, if the client disconnects in the middle of a claim", func() {
		name := fmt.Sprint("manager-", queues.Add(1))
		direct := aside(name)
		ids := []string{direct.add(1, nil).ID, direct.add(2, nil).ID, direct.add(3, nil).ID}
		arrived, gone := make(chan struct{}, 1), make(chan context.Context, 1)
		m := manageAs(name, bullmqhttp.ManagerOptions{
			CheckWorker: func(ctx context.Context, worker string) error {
				if worker == "anna" {
					gone <- ctx
				}
				return nil
			},
			Fetcher: bullmq.FetcherOptions{Now: func() time.Time { // called by each fetch
				if job, err := direct.m.Get(context.Background(), ids[0]); err == nil && job.State == bullmqhttp.Running {
					select {
					case ctx := <-gone:
						arrived <- struct{}{}
						<-ctx.Done() // the client is gone, and this fetch goes on
					default:
					}
				}
				return time.Now()
			}},
		})
		m.abandon(`{"max":2}`, arrived)
		for i, id := range ids {
			job := m.get(id)
			Expect(job.State).To(Equal(bullmqhttp.Queued))
			Expect(job.Attempts).To(BeZero())
			Expect(job.Worker == "anna").To(Equal(i < 2), "two were claimed, and given back")
		}
		for _, id := range ids {
			Expect(m.claim("berta").JobID).To(Equal(id))
		}
	})

	It("claims nothing for a client that disconnects while its claim waits", func() {
		arrived := make(chan struct{}, 1)
		m := manage(bullmqhttp.ManagerOptions{CheckWorker: func(_ context.Context, worker string) error {
			if worker == "anna" {
				arrived <- struct{}{}
			}
			return nil
		}})
		m.abandon(`{"wait":25}`, arrived)
		job := m.add(1, nil)
		Expect(m.claim("berta").JobID).To(Equal(job.ID))
		Expect(m.get(job.ID).Worker).To(Equal("berta"))
	})

	It("shows a job that no reader can parse, and fails it when it is claimed", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
		for _, stored := range []string{"{", "\"\xff\"", deep} {
			job := m.add(1, nil)
			script := `for _, field in ipairs({'data', 'progress', 'returnvalue'}) do redis.call('HSET', KEYS[1], field, ARGV[1]) end return 'done'`
			command(redis, "EVAL", script, "1", "bull:"+m.queue.Name()+":"+job.ID, stored)
			shown := m.read("/jobs/" + job.ID).info()
			Expect(string(shown.Data)).To(HavePrefix(`"`), "a text in JSON")
			Expect(string(shown.Progress)).To(Or(BeEmpty(), HavePrefix(`"`)))
			list := m.read("/jobs?status=queued")
			Expect(list.infos()).To(HaveLen(1))
			Expect(utf8.ValidString(list.body)).To(BeTrue())
			claims := m.post("anna", "/claims", "").claims()
			if stored == "{" {
				Expect(claims).To(BeEmpty())
				Expect(m.read("/jobs/" + job.ID).info().State).To(Equal(bullmqhttp.Failed))
				continue
			}
			Expect(claims).To(HaveLen(1), "a worker can read its text")
			Expect(m.post("anna", "/jobs/"+job.ID+"/succeed", with(claims[0], "")).status).To(Equal(http.StatusOK))
			command(redis, "EVAL", script, "1", "bull:"+m.queue.Name()+":"+job.ID, stored)
			Expect(string(m.read("/jobs/" + job.ID).info().Result)).To(HavePrefix(`"`))
		}
	})

	It("replies to each call with 503 while Redis is down, and serves them when it is back", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{URL: own.URL()}})
		m.add(1, nil)
		m.claim("anna") // its fetcher is open
		own.Stop()
		for _, r := range slices.Backward(routes) { // the submit last: the first call may not know whether it had an effect
			Eventually(func(g Gomega) {
				a := m.call(r)
				g.Expect(a.status).To(Equal(http.StatusServiceUnavailable), r.method+" "+r.path)
				g.Expect(a.code()).To(Equal(bullmqhttp.CodeUnavailable), r.method+" "+r.path)
				g.Expect(a.header.Get("Retry-After")).To(Equal("5"))
				g.Expect(a.body).NotTo(ContainSubstring(own.Addr()))
			}, "20s").Should(Succeed())
		}
		Expect(m.post("berta", "/claims", "").code()).To(Equal(bullmqhttp.CodeUnavailable)) // it has none yet
		Expect(own.Start()).To(Succeed())
		Eventually(func() int { return m.call(routes[0]).status }, "20s").Should(Equal(http.StatusCreated))
		for _, worker := range []string{"anna", "berta"} {
			Eventually(func() int { return m.post(worker, "/claims", "").status }, "20s").Should(Equal(http.StatusOK))
		}
	})

	It("replies with 503 if Redis is full", func() {
		own, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Close)
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{URL: own.URL()}})
		fill(own)
		a := m.post("", "/jobs", `{"name":"report"}`)
		Expect(a.status).To(Equal(http.StatusServiceUnavailable))
		Expect(a.code()).To(Equal(bullmqhttp.CodeUnavailable))
		Expect(a.body).NotTo(ContainSubstring("maxmemory"))
	})
})
