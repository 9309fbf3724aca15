package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

// withBody are the calls whose body is read.
func withBody() []route {
	return slices.DeleteFunc(slices.Clone(routes), func(r route) bool { return r.body == "" })
}

// expectRefused checks the status and the code of a problem, and that it has a title and a detail.
func expectRefused(a answer, status int, code string, about ...any) {
	GinkgoHelper()
	Expect(a.status).To(Equal(status), fmt.Sprint(about...)+": "+a.body)
	Expect(a.code()).To(Equal(code), fmt.Sprint(about...))
	var p bullmqhttp.Problem
	a.decode(&p)
	Expect(p.Detail).NotTo(BeEmpty())
}

var _ = Describe("A manager refuses over HTTP", func() {
	ctx := context.Background()

	DescribeTable("a job that is invalid:", func(body, code string) {
		m := manage(bullmqhttp.ManagerOptions{})
		expectRefused(m.post("", "/jobs", body), http.StatusBadRequest, code)
		Expect(m.jobs()).To(BeZero())
	},
		Entry("without a body", "", bullmqhttp.CodeInvalidJob),
		Entry("without a name", `{"data":1}`, bullmqhttp.CodeInvalidJob),
		Entry("null", `null`, bullmqhttp.CodeInvalidJob),
		Entry("with a number as its name", `{"name":1}`, bullmqhttp.CodeInvalidJob),
		Entry("with a delay that is no number", `{"name":"report","delay":"1s"}`, bullmqhttp.CodeInvalidJob),
		Entry("with a negative delay", `{"name":"report","delay":-1}`, bullmqhttp.CodeInvalidJob),
		Entry("with a delay of centuries", `{"name":"report","delay":1e12}`, bullmqhttp.CodeInvalidJob),
		Entry("with a negative priority", `{"name":"report","priority":-1}`, bullmqhttp.CodeInvalidJob),
		Entry("with a priority that is too high", `{"name":"report","priority":2097152}`, bullmqhttp.CodeInvalidJob),
		Entry("with negative attempts", `{"name":"report","attempts":-1}`, bullmqhttp.CodeInvalidJob),
		Entry("with an option that can't be set", `{"name":"report","repeat":{"every":1}}`, bullmqhttp.CodeInvalidJob),
		Entry("with a number as its id", `{"name":"report","id":"17"}`, bullmqhttp.CodeInvalidJobID),
		Entry("with the id of a key of the queue", `{"name":"report","id":"wait"}`, bullmqhttp.CodeInvalidJobID),
		Entry("with a colon in its id", `{"name":"report","id":"a:b"}`, bullmqhttp.CodeInvalidJobID),
		Entry("with a line break in its id", `{"name":"report","id":"a\nb"}`, bullmqhttp.CodeInvalidJobID),
		Entry("with an id of 1,001 bytes", `{"name":"report","id":"`+strings.Repeat("a", 1001)+`"}`, bullmqhttp.CodeInvalidJobID),
	)

	It("a job whose id exists", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		Expect(m.post("", "/jobs", `{"name":"report","id":"a"}`).status).To(Equal(http.StatusCreated))
		a := m.post("", "/jobs", `{"name":"other","id":"a"}`)
		expectRefused(a, http.StatusConflict, bullmqhttp.CodeJobExists)
		Expect(a.body).To(ContainSubstring(`"id":"a"`))
	})

	It("a body that is not one JSON object with the fields of the call, is too large, or has another type", func() {
		m := manage(bullmqhttp.ManagerOptions{MaxBody: 200})
		for _, r := range withBody() {
			code := bullmqhttp.CodeInvalidRequest
			if r.path == "/jobs" {
				code = bullmqhttp.CodeInvalidJob
			}
			valid := r.body
			for _, body := range []string{
				`{"token":`, "[]", `"a"`, valid + valid, valid + "x", `{"surprise":1}`, strings.Replace(valid, "{", "{\"\xff\":1,", 1),
			} {
				r.body = body
				expectRefused(m.call(r), http.StatusBadRequest, code, r.path, body)
			}
			r.body = valid + strings.Repeat(" ", 200)
			expectRefused(m.call(r), http.StatusRequestEntityTooLarge, bullmqhttp.CodeTooLarge, r.path)
			for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
				a := m.do(r.method, "/manage"+r.path, valid, "Content-Type", contentType, "Worker", "anna")
				expectRefused(a, http.StatusUnsupportedMediaType, bullmqhttp.CodeUnsupportedType, r.path)
			}
		}
		Expect(m.jobs()).To(BeZero())
	})

	It("data or a result that is not UTF-8, or is nested too deep for other readers", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		for _, value := range []string{"\"\xff\"", strings.Repeat("[", 5000) + strings.Repeat("]", 5000)} {
			expectRefused(m.post("", "/jobs", `{"name":"report","data":`+value+`}`), http.StatusBadRequest, bullmqhttp.CodeInvalidJob)
			expectRefused(m.post("anna", path+"/succeed", with(claim, `,"result":`+value)), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest)
			expectRefused(m.post("anna", path+"/extend", with(claim, `,"progress":`+value)), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest)
		}
		Expect(m.post("anna", path+"/succeed", with(claim, `,"result":"☃"`)).status).To(Equal(http.StatusOK))
	})

	It("a body that is cut off", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		answers := m.raw("POST /manage/jobs HTTP/1.1\r\nHost: a\r\n"+typeJSON+"Content-Length: 100\r\n\r\n{\"name\":\"report\"}", 0)
		Expect(answers).To(HaveLen(1))
		expectRefused(answers[0], http.StatusBadRequest, bullmqhttp.CodeInvalidRequest)
		Expect(m.jobs()).To(BeZero())
	})

	It("a parameter that is out of range", func() {
		m := manage(bullmqhttp.ManagerOptions{MaxClaimFor: time.Minute})
		m.add(1, nil)
		claim := m.take("anna")
		for _, path := range []string{
			"/jobs", "/jobs?status=other", "/jobs?status=cancelled", "/jobs?status=queued&limit=0", "/jobs?status=queued&limit=1001",
			"/claims/stale?limit=x", "/due?limit=-1",
		} {
			expectRefused(m.read(path), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest, path)
		}
		expectRefused(m.post("", "/due?limit=0", ""), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest)
		for _, body := range []string{`{"max":0}`, `{"max":-1}`, `{"wait":-1}`, `{"wait":"1"}`, `{"max":1.5}`} {
			expectRefused(m.post("anna", "/claims", body), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest, body)
		}
		for _, body := range []string{"", `{}`, `{"status":"failed"}`, `{"olderThan":1}`, `{"status":"running","olderThan":1}`, `{"status":"failed","olderThan":-1}`} {
			expectRefused(m.post("", "/cleanup", body), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest, body)
		}
		path := "/jobs/" + claim.JobID
		for call, fields := range map[string][]string{
			"/extend": {`,"by":61`, `,"by":-1`}, "/fail": {`,"retryAfter":-1`, `,"permanent":1`}, "/release": {`,"wait":-1`},
		} {
			for _, each := range fields {
				expectRefused(m.post("anna", path+call, with(claim, each)), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest, call, each)
			}
		}
		for _, call := range []string{"/extend", "/succeed", "/fail", "/release"} {
			expectRefused(m.post("anna", path+call, "{}"), http.StatusBadRequest, bullmqhttp.CodeInvalidRequest, call, " without a token")
		}
		Expect(m.read(path).info().State).To(Equal(bullmqhttp.Running))
	})

	It("a path or a method that no call has", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		for _, path := range []string{"/", "/manage", "/manage/", "/manager/stats", "/manage/jobs/", "/manage/jobs/a/b", "/manage/jobs/a/cancel/", "/manage/Stats", "//manage/stats"} {
			expectRefused(m.do("GET", path, ""), http.StatusNotFound, bullmqhttp.CodeNotFound, path)
		}
		for path, allow := range map[string]string{
			"/jobs": "GET, HEAD, POST", "/jobs/a": "DELETE, GET, HEAD", "/jobs/a/cancel": "POST", "/claims": "POST", "/jobs/a/extend": "POST",
			"/jobs/a/succeed": "POST", "/jobs/a/fail": "POST", "/jobs/a/release": "POST", "/claims/stale": "GET, HEAD, POST",
			"/due": "GET, HEAD, POST", "/stats": "GET, HEAD", "/cleanup": "POST",
		} {
			a := m.do("PUT", "/manage"+path, "")
			expectRefused(a, http.StatusMethodNotAllowed, bullmqhttp.CodeMethodNotAllowed, path)
			Expect(a.header.Get("Allow")).To(Equal(allow), path)
		}
		for _, id := range []string{"%00", "a%0Ab", "%FF", strings.Repeat("a", 1001)} {
			expectRefused(m.read("/jobs/"+id), http.StatusBadRequest, bullmqhttp.CodeInvalidJobID, id)
			expectRefused(m.post("", "/jobs/"+id+"/cancel", ""), http.StatusBadRequest, bullmqhttp.CodeInvalidJobID, id)
			expectRefused(m.post("anna", "/jobs/"+id+"/succeed", token), http.StatusBadRequest, bullmqhttp.CodeInvalidJobID, id)
			expectRefused(m.do("DELETE", "/manage/jobs/"+id, ""), http.StatusBadRequest, bullmqhttp.CodeInvalidJobID, id)
		}
	})

	It("what Authorize does not allow, which it learns of by the action of each call", func() {
		var asked []bullmqhttp.Action
		m := manage(bullmqhttp.ManagerOptions{Authorize: func(_ *http.Request, action bullmqhttp.Action) error {
			asked = append(asked, action)
			return errors.New("the secret reason")
		}})
		for i, r := range routes {
			a := m.call(r)
			expectRefused(a, http.StatusForbidden, bullmqhttp.CodeForbidden, r.path)
			Expect(a.body).NotTo(ContainSubstring("secret"))
			Expect(asked[i]).To(Equal(r.action), r.method+" "+r.path)
		}
		Expect(asked).To(HaveLen(16))
	})

	It("the calls of a worker that is not known, and no others", func() {
		m := manage(bullmqhttp.ManagerOptions{CheckWorker: func(_ context.Context, worker string) error {
			if worker != "anna" {
				return errors.New("the secret reason")
			}
			return nil
		}})
		alone, err := bullmqhttp.NewManager(ctx, m.queue.Name(), &bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{URL: redis.URL()}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(alone.Close)
		web := httptest.NewServer(alone)
		DeferCleanup(web.Close)
		without := &service{url: web.URL, client: m.client}
		for _, r := range routes {
			isWork := r.action == bullmqhttp.ActionWork
			answers := []answer{
				m.do(r.method, "/manage"+r.path, r.body, "Content-Type", "application/json"),
				m.do(r.method, "/manage"+r.path, r.body, "Content-Type", "application/json", "Worker", "berta"),
				m.do(r.method, "/manage"+r.path, r.body, "Content-Type", "application/json", "Worker", strings.Repeat("a", 101)),
				without.do(r.method, "/manage"+r.path, r.body, "Content-Type", "application/json", "Worker", "anna"),
			}
			if !isWork {
				for _, a := range answers {
					Expect(a.status).To(BeElementOf(200, 201, 204, 404), r.path)
				}
				continue
			}
			expectRefused(answers[1], http.StatusForbidden, bullmqhttp.CodeForbidden, r.path)
			Expect(answers[1].body).NotTo(ContainSubstring("secret"))
			Expect(answers[0].status).To(Equal(http.StatusUnauthorized)) // as Authenticate says
			Expect(answers[0].code()).To(Equal("UNAUTHENTICATED"))
			expectRefused(answers[2], http.StatusBadRequest, bullmqhttp.CodeInvalidWorker, r.path)
			expectRefused(answers[3], http.StatusForbidden, bullmqhttp.CodeForbidden, r.path)
		}
	})

	It("the calls on a claim by another worker, or with another token", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		claim := m.take("anna")
		for _, call := range []string{"/extend", "/succeed", "/fail", "/release"} {
			path := "/jobs/" + claim.JobID + call
			for _, a := range []answer{
				m.post("berta", path, with(claim, "")), m.post("anna", path, token), m.post("anna", path, `{"token":"0"}`), m.post("anna", path, `{"token":"b5c2a3a8-0f4e-4f0c-9a41"}`),
			} {
				expectRefused(a, http.StatusConflict, bullmqhttp.CodeAlreadyAssigned, call)
			}
		}
		expectRefused(m.do("DELETE", "/manage/jobs/"+claim.JobID, ""), http.StatusConflict, bullmqhttp.CodeAlreadyAssigned)
		Expect(m.post("anna", "/jobs/"+claim.JobID+"/succeed", with(claim, "")).status).To(Equal(http.StatusOK))
	})

	It("calls that the state of a job does not allow", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		claim := m.take("anna")
		path := "/jobs/" + claim.JobID
		onClaim := func(status int, code string) (last answer) {
			GinkgoHelper()
			for _, call := range []string{"/extend", "/succeed", "/fail", "/release"} {
				last = m.post("anna", path+call, with(claim, ""))
				expectRefused(last, status, code, call)
			}
			return last
		}
		Expect(m.post("anna", path+"/fail", with(claim, `,"retryAfter":3600`)).info().State).To(Equal(bullmqhttp.Retrying))
		a := onClaim(http.StatusConflict, bullmqhttp.CodeRetryDelay)
		Expect(strconv.Atoi(a.header.Get("Retry-After"))).To(BeNumerically("~", 3600, 60))
		Expect(m.queue.JobRef(claim.JobID).Promote(ctx)).To(Succeed())
		onClaim(http.StatusConflict, bullmqhttp.CodeWrongStatus)
		claim = m.take("anna")
		Expect(m.post("anna", path+"/succeed", with(claim, "")).status).To(Equal(http.StatusOK))
		onClaim(http.StatusConflict, bullmqhttp.CodeWrongStatus)
		expectRefused(m.post("", path+"/cancel", ""), http.StatusConflict, bullmqhttp.CodeWrongStatus)
		Expect(m.do("DELETE", "/manage"+path, "").status).To(Equal(http.StatusNoContent))
		onClaim(http.StatusNotFound, bullmqhttp.CodeJobNotFound)
		expectRefused(m.post("", path+"/cancel", ""), http.StatusNotFound, bullmqhttp.CodeJobNotFound)
		expectRefused(m.read(path), http.StatusNotFound, bullmqhttp.CodeJobNotFound)
		expectRefused(m.do("DELETE", "/manage"+path, ""), http.StatusNotFound, bullmqhttp.CodeJobNotFound)
	})

	It("the result of a job whose children have not finished, or have failed it", func() {
		m := manage(bullmqhttp.ManagerOptions{})
		m.add(1, nil)
		claim := m.take("anna")
		parent, err := m.queue.Job(ctx, claim.JobID)
		Expect(err).NotTo(HaveOccurred())
		_, err = m.m.Submit(ctx, "part", nil, &bullmq.JobOptions{Attempts: 1, Parent: parent.AsParent(), OnFailure: bullmq.FailParent})
		Expect(err).NotTo(HaveOccurred())
		path := "/jobs/" + claim.JobID
		expectRefused(m.post("anna", path+"/succeed", with(claim, "")), http.StatusConflict, bullmqhttp.CodePendingChildren)
		part := m.take("berta")
		m.post("berta", "/jobs/"+part.JobID+"/fail", with(part, `,"reason":"broken"`))
		expectRefused(m.post("anna", path+"/succeed", with(claim, "")), http.StatusConflict, bullmqhttp.CodeFailedChildren)
		Expect(m.post("anna", path+"/fail", with(claim, `,"permanent":true`)).info().State).To(Equal(bullmqhttp.Failed))
	})

	It("to say whether a job was added if the reply of Redis is lost, and names its id", func() {
		proxy, options := proxied(redis)
		m := manage(bullmqhttp.ManagerOptions{Fetcher: bullmq.FetcherOptions{URL: options.URL}})
		m.add(1, nil) // the script is loaded
		lost := proxy.LoseReply("EVALSHA")
		added := m.post("", "/jobs", `{"name":"report","id":"a"}`)
		Eventually(lost, "20s").Should(BeClosed())
		Expect(added.status).To(Equal(http.StatusCreated), "it is the job of this call")

		hangs := proxy.HangReply("EVALSHA")
		go func() {
			defer GinkgoRecover()
			Eventually(hangs, "20s").Should(BeClosed())
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
			Expect(m.m.Close()).To(Succeed()) // or it would look for the job for five seconds
		}()
		a := m.post("", "/jobs", `{"name":"report"}`)
		expectRefused(a, http.StatusServiceUnavailable, bullmqhttp.CodeMaybeAdded)
		Expect(a.header.Get("Retry-After")).To(Equal("5"))
		var p bullmqhttp.Problem
		a.decode(&p)
		other := manageAs(m.queue.Name(), bullmqhttp.ManagerOptions{})
		Expect(other.read("/jobs/" + p.JobID).info().State).To(Equal(bullmqhttp.Queued))
	})
})
