package bullmqhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// curl is a command of docs/http.md, and what it prints there.
type curl struct{ line, output string }

// curls returns the curl lines of a page. A command follows "$ ". What it prints is below, up to the next command or the end of the
// block.
func curls(page string) (found []curl) {
	GinkgoHelper()
	for _, block := range regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		for _, part := range regexp.MustCompile(`(?m)^\$ `).Split(block[1], -1)[1:] {
			line, output, _ := strings.Cut(part, "\n")
			found = append(found, curl{line, strings.TrimRight(output, "\n")})
		}
	}
	Expect(found).To(HaveLen(len(regexp.MustCompile(`(?m)^\W*curl `).FindAllString(page, -1))), `a curl line is not in a block after "$ "`)
	return found
}

var (
	idOfJob = regexp.MustCompile(`\b(?:rq|ik)-[\w-]{22}|\border-\w+`)
	path    = regexp.MustCompile(`"self":"(/\w+)/`) // of the jobs, in a reply
	// changing are the texts that differ from run to run.
	changing = regexp.MustCompile(`(?m)\b\d{4}-\d\d-\d\dT[\d:.]+Z|^id: \d+-\d+$|^Retry-After: \d+$|^Etag: "[\w-]{22}"$`)
	digits   = regexp.MustCompile(`\d[\d:.TZ-]*`)
)

// plain returns a text without times.
func plain(text string) string {
	return changing.ReplaceAllStringFunc(text, func(text string) string {
		if name, _, found := strings.Cut(text, `: "`); found {
			return name + `: "…"`
		}
		return digits.ReplaceAllString(text, "0")
	})
}

// session compares what the page shows with the replies of a server, apart from ids and times. An id on the page stands for the
// job of the first reply that is shown with it.
type session struct{ jobs map[string]string }

// actual returns a text of the page with the ids of this session.
func (s session) actual(text string) string {
	return idOfJob.ReplaceAllStringFunc(text, func(id string) string {
		if job := s.jobs[id]; job != "" {
			return job
		}
		return id
	})
}

// compare fails unless a reply is as the page shows it. The page need not show all of the headers.
func (s session) compare(shown, reply string) {
	GinkgoHelper()
	reply = strings.ReplaceAll(reply, "\r\n", "\n")
	job := idOfJob.FindString(reply) // a reply is about one job
	if id := idOfJob.FindString(shown); id != "" && s.jobs[id] == "" {
		s.jobs[id] = job
	}
	base := "/jobs"
	if found := path.FindStringSubmatch(reply); found != nil {
		base = found[1]
	}
	links := fmt.Sprintf(`{"self":"%s/%s","result":"%[1]s/%[2]s/result","events":"%[1]s/%[2]s/events","cancel":"%[1]s/%[2]s/cancel"}`, base, job)
	shown = strings.NewReplacer("{…}", links, "rq-…", job).Replace(s.actual(shown))
	shownHead, shownBody, _ := strings.Cut(plain(shown), "\n\n")
	head, body, _ := strings.Cut(plain(reply), "\n\n")
	lines := strings.Split(head, "\n")
	for i, line := range strings.Split(shownHead, "\n") {
		if i == 0 {
			Expect(lines[0]).To(Equal(line), reply)
		} else {
			Expect(lines).To(ContainElement(line), reply)
		}
	}
	Expect(strings.TrimRight(body, "\n")).To(Equal(shownBody), reply)
}

// reportMaker is the handler of the page. Report 7 is ready at once. Report 8 stays at 50 % until its job is released or cancelled.
type reportMaker struct {
	mu   sync.Mutex
	held map[string]chan struct{} // by job
}

func (m *reportMaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") == "8" {
		if err := bullmq.UpdateProgress(r.Context(), 50); err != nil {
			panic(err)
		}
		select {
		case <-m.hold(bullmq.JobFromContext(r.Context()).ID):
		case <-r.Context().Done():
			return
		}
		if err := bullmq.UpdateProgress(r.Context(), 90); err != nil {
			panic(err)
		}
	}
	fmt.Fprintf(w, "report %s\n", r.PathValue("id"))
}

func (m *reportMaker) hold(id string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[id] = make(chan struct{})
	return m.held[id]
}

// release lets a job continue. If it is to be cancelled, its handler waits for that instead.
func (m *reportMaker) release(id string, cancelled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if gate := m.held[id]; gate != nil && !cancelled {
		close(gate)
	}
	delete(m.held, id)
}

func (m *reportMaker) releaseAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, gate := range m.held {
		close(gate)
		delete(m.held, id)
	}
}

// holding returns how many jobs are held.
func (m *reportMaker) holding() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held)
}

// watch releases a job when a client waits for its end, has got the first of its events, or cancels it.
func (m *reportMaker) watch(jobs http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, part, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/jobs/"), "/")
		switch {
		case part == "events":
			w = &firstWrite{w, func() { m.release(id, false) }}
		case r.Method == http.MethodDelete:
			m.release(id, true)
		case r.URL.Query().Has("wait"):
			m.release(id, false)
		}
		jobs.ServeHTTP(w, r)
	})
}

// firstWrite calls a function after a Write.
type firstWrite struct {
	http.ResponseWriter
	then func()
}

func (w *firstWrite) Write(part []byte) (int, error) {
	defer w.then()
	return w.ResponseWriter.Write(part)
}

func (w *firstWrite) Unwrap() http.ResponseWriter { return w.ResponseWriter }

var _ = Describe("The page about HTTP", func() {
	var lines []curl

	BeforeEach(func() {
		page, err := os.ReadFile("../docs/http.md")
		Expect(err).NotTo(HaveOccurred())
		lines = curls(string(page))
	})

	It("has a curl line for each feature", func() {
		shows := func(of func(curl) string, pattern string) bool {
			return slices.ContainsFunc(lines, func(c curl) bool { return regexp.MustCompile(pattern).MatchString(of(c)) })
		}
		for _, request := range []string{
			`/reports/7 .*-d`, `Prefer: wait=`, `Idempotency-Key: `, `/jobs/[\w-]+$`, `/jobs/[\w-]+\?wait=`, `/result$`,
			`Prefer: return=representation`, `-X DELETE`, `/events$`,
		} {
			Expect(shows(func(c curl) string { return c.line }, request)).To(BeTrue(), request)
		}
		for _, status := range []string{"200", "202", "303", "400", "404", "405", "409", "410", "415", "422"} {
			Expect(shows(func(c curl) string { return c.output }, `\AHTTP/1.1 `+status)).To(BeTrue(), status)
		}
	})

	It("shows what its curl lines print", func(ctx SpecContext) {
		if _, err := exec.LookPath("curl"); err != nil {
			Skip("curl is not installed: " + err.Error())
		}
		s := start(nil, bullmqhttp.Route{}, nil)
		jobs := bullmqhttp.New(s.queue, &bullmqhttp.Options{MaxWaiting: 10_000, KeepFor: 24 * time.Hour})
		DeferCleanup(jobs.Close)
		maker := &reportMaker{held: map[string]chan struct{}{}}
		s.work(maker.ServeHTTP)
		DeferCleanup(maker.releaseAll) // otherwise the worker would wait for them after a failure
		mux := http.NewServeMux()
		mux.Handle("POST /reports/{id}", jobs.Async("report", bullmqhttp.Route{ // as on the page
			Job:          bullmq.JobOptions{Attempts: 3, Backoff: bullmq.ExponentialBackoff(time.Second)},
			ContentTypes: []string{"application/json"},
		}))
		mux.Handle("/jobs/", maker.watch(jobs))
		orders := start(&bullmqhttp.Options{Base: "/orders"}, bullmqhttp.Route{}, nil)
		mux.Handle("POST /orders", bullmqhttp.Post(orders.server, PlaceOrder, checkOrder))
		mux.Handle("/orders/", orders.server)
		placed := bullmq.NewMux()
		bullmq.Handle(placed, PlaceOrder, func(_ context.Context, _ *bullmq.Job, order Order) (Receipt, error) {
			return Receipt{Paid: order.Cents}, nil
		})
		orders.workWith(placed.ServeJob, &bullmq.WorkerOptions{})
		web := httptest.NewServer(mux)
		DeferCleanup(web.Close)

		compared := session{map[string]string{}}
		environment := append(os.Environ(), "NO_PROXY=*", "CURL_HOME="+GinkgoT().TempDir())
		for _, c := range lines {
			By(c.line)
			Expect(c.line).To(And(HavePrefix("curl -i"), ContainSubstring("localhost:8080/")))
			command := exec.CommandContext(ctx, "sh", "-c", strings.Replace(compared.actual(c.line), "localhost:8080", web.Listener.Addr().String(), 1))
			command.Env = environment
			reply, err := command.Output()
			Expect(err).NotTo(HaveOccurred(), c.line)
			compared.compare(c.output, string(reply))
			s.settle(maker)
		}
	}, SpecTimeout(3*time.Minute))
})

// settle waits until each job has ended or is held.
func (s *service) settle(m *reportMaker) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		counts, err := s.queue.Counts(context.Background(), bullmq.StateWaiting, bullmq.StateDelayed, bullmq.StateActive)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(counts).To(Equal(map[bullmq.State]int{bullmq.StateWaiting: 0, bullmq.StateDelayed: 0, bullmq.StateActive: m.holding()}))
	}).WithTimeout(20 * time.Second).Should(Succeed())
}
