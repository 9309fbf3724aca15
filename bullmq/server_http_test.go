package bullmq_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A server that serves HTTP", func() {
	var (
		server *bullmq.Server
		web    *http.ServeMux
		log    *gbytes.Buffer
		stop   context.CancelFunc
		ended  chan error
	)
	// run runs the server and returns its URL.
	run := func() string {
		GinkgoHelper()
		var ctx context.Context
		ctx, stop = context.WithCancel(context.Background())
		DeferCleanup(stop)
		server.HandleHTTP(&http.Server{Addr: "127.0.0.1:0", Handler: web})
		go func() { ended <- server.Run(ctx) }()
		listen := regexp.MustCompile(`msg="serving HTTP" listen=(\S+)`)
		Eventually(log, "5s").Should(gbytes.Say("serving HTTP"))
		return "http://" + listen.FindStringSubmatch(string(log.Contents()))[1]
	}
	get := func(url string) (status int, body string, err error) {
		response, err := http.Get(url)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response.StatusCode, string(text), err
	}

	BeforeEach(func() {
		conn, err := bullmq.Connect(specContext(), redis.URL())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		log, web, ended = gbytes.NewBuffer(), http.NewServeMux(), make(chan error, 1)
		server = bullmq.NewServer(conn, &bullmq.ServerOptions{
			Logger: bullmq.Slog(slog.New(slog.NewTextHandler(log, nil))), Signals: []os.Signal{syscall.SIGUSR2},
		})
		DeferCleanup(func() { _ = server.Shutdown(context.Background()) })
		web.Handle("/livez", server.Live())
		web.Handle("/readyz", server.Ready())
	})

	It("answers probes while running jobs finish, and refuses connections when Run has returned", func() {
		queue := newQueue(newQueueName(), nil)
		started, finish := make(chan struct{}), make(chan struct{})
		server.Handle(queue.Name(), func(context.Context, *bullmq.Job) (any, error) {
			close(started)
			<-finish
			return nil, nil
		}, nil)
		url := run()
		Eventually(func() (int, error) { status, _, err := get(url + "/readyz"); return status, err }, "5s").Should(Equal(http.StatusOK))
		_, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		Eventually(started, "5s").Should(BeClosed())
		stop()
		Eventually(func() (int, error) { status, _, err := get(url + "/readyz"); return status, err }, "5s").Should(Equal(http.StatusServiceUnavailable))
		status, body, err := get(url + "/livez")
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(http.StatusOK))
		Expect(body).To(ContainSubstring(`"stopping"`))
		close(finish)
		Eventually(ended, "5s").Should(Receive(BeNil()))
		_, _, err = get(url + "/livez")
		Expect(err).To(HaveOccurred())
	})

	It("lets requests end that use its queues, but none that watches a job", func() {
		queue, err := server.Queue(specContext(), newQueueName(), nil)
		Expect(err).NotTo(HaveOccurred())
		job, err := queue.Add(specContext(), "a", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		begun, goOn := make(chan struct{}, 2), make(chan struct{})
		web.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
			for event, err := range queue.WatchJob(r.Context(), job.ID) {
				fmt.Fprintln(w, event.Type, err)
				begun <- struct{}{}
			}
		})
		web.HandleFunc("/add", func(w http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			<-goOn
			_, err := queue.Add(r.Context(), "b", nil, nil)
			fmt.Fprint(w, err)
		})
		url := run()
		watched, added := make(chan string, 1), make(chan string, 1)
		go func() { _, body, err := get(url + "/watch"); watched <- fmt.Sprint(body, err) }()
		go func() { _, body, err := get(url + "/add"); added <- fmt.Sprint(body, err) }()
		Eventually(begun, "5s").Should(Receive())
		Eventually(begun, "5s").Should(Receive())
		stop()
		Eventually(watched, "5s").Should(Receive(And(HavePrefix("waiting <nil>"), ContainSubstring(bullmq.ErrClosed.Error()))))
		Expect(ended).NotTo(Receive())
		close(goOn)
		Eventually(added, "5s").Should(Receive(Equal("<nil><nil>")))
		Eventually(ended, "5s").Should(Receive(BeNil()))
		Expect(queue.Add(specContext(), "b", nil, nil)).Error().To(MatchError(bullmq.ErrClosed))
	})

	It("cuts off requests after the second signal, and says so", func() {
		begun := make(chan struct{})
		web.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
		})
		url := run()
		go func() { _, _, _ = get(url + "/slow") }()
		Eventually(begun, "5s").Should(BeClosed())
		Expect(syscall.Kill(os.Getpid(), syscall.SIGUSR2)).To(Succeed())
		Consistently(ended, "100ms").ShouldNot(Receive())
		Expect(syscall.Kill(os.Getpid(), syscall.SIGUSR2)).To(Succeed())
		Eventually(ended, "4s").Should(Receive(MatchError(ContainSubstring("requests were cut off"))))
	})

	It("does not run if its address is taken", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		defer listener.Close()
		server.HandleHTTP(&http.Server{Addr: "127.0.0.1:0", Handler: web})
		server.HandleHTTP(&http.Server{Addr: listener.Addr().String(), Handler: web})
		Expect(server.Run(specContext())).To(MatchError(And(HavePrefix("bullmq: serve HTTP: listen tcp "+listener.Addr().String()), ContainSubstring("in use"))))
	})
})
