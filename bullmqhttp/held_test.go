package bullmqhttp_test

import (
	"context"
	"io"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

func greet(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// holding starts a service that holds one request at most, with one that waits, and returns a function that ends it.
func holding(path string, route bullmqhttp.Route) (s *service, location string, leave func()) {
	GinkgoHelper()
	s = start(&bullmqhttp.Options{MaxHeld: 1}, route, nil)
	location = s.do("POST", "/reports/7", "", "Prefer", "wait=0").header.Get("Location")
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+location+path, nil)
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if reply, err := s.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, reply.Body)
			_ = reply.Body.Close()
		}
	}()
	leave = func() { cancel(); <-ended }
	DeferCleanup(leave)
	Eventually(func() int { return waiting("bullmq.(*Queue).yieldEvents") + waiting("bullmq.(*Queue).WaitForJob") }, "20s").Should(BeNumerically(">", 0))
	return s, location, leave
}

var _ = Describe("While MaxHeld requests are held, another one", func() {
	DescribeTable("is answered at once:", func(path string) {
		s, location, leave := holding(path, bullmqhttp.Route{Wait: 25 * time.Second})
		begun := time.Now()
		a := s.submit("Prefer", "wait=25")
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Location")).To(HavePrefix("/jobs/"))
		Expect(a.job().State).To(Equal(bullmqhttp.Queued))
		Expect(a.header).NotTo(HaveKey("Preference-Applied"))    // the wait was not obeyed
		Expect(s.submit().status).To(Equal(http.StatusAccepted)) // with the wait of the route
		a = s.submit("Prefer", "respond-async, wait=25")
		Expect(a.status).To(Equal(http.StatusAccepted))
		Expect(a.header.Get("Preference-Applied")).To(Equal("respond-async"))
		a = s.get(location, "?wait=25")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(a.job().State).To(Equal(bullmqhttp.Queued))
		a = s.get(location, "", "Prefer", "wait=25")
		Expect(a.status).To(Equal(http.StatusOK))
		Expect(a.header).NotTo(HaveKey("Preference-Applied"))
		Expect(s.get(location, "/result?wait=25").code()).To(Equal(bullmqhttp.CodeNotFinished))
		a = s.get(location, "/events")
		Expect(a.status).To(Equal(http.StatusServiceUnavailable))
		Expect(a.code()).To(Equal(bullmqhttp.CodeTooManyHeld))
		Expect(a.header.Get("Retry-After")).NotTo(BeEmpty())
		Expect(time.Since(begun)).To(BeNumerically("<", 25*time.Second)) // less than one of the waits

		leave()
		s.work(greet)
		Eventually(func() int { return s.submit("Prefer", "wait=25").status }, "20s").Should(Equal(http.StatusOK))
		Expect(s.get(location, "/events").body).To(ContainSubstring("event: end"))
	},
		Entry("the held one waits for the status", "?wait=25"),
		Entry("the held one waits for the result", "/result?wait=25"),
		Entry("the held one gets events", "/events"),
	)

	It("that does not wait is not affected", func() {
		s, location, _ := holding("?wait=25", bullmqhttp.Route{})
		Expect(s.submit("Prefer", "wait=0").header.Get("Preference-Applied")).To(Equal("wait=0"))
		Expect(s.get(location, "").status).To(Equal(http.StatusOK))
		Expect(s.do("DELETE", location, "").status).To(Equal(http.StatusAccepted))
	})
})
