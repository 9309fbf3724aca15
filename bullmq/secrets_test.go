package bullmq_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// sharedLog is a log that several goroutines may write to.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *sharedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var _ = Describe("A password", Label("slow"), func() {
	const secret = "s3cret"

	// shownNowhere checks that no way of printing the values shows the password.
	shownNowhere := func(values ...any) {
		GinkgoHelper()
		for _, value := range values {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
				Expect(fmt.Sprintf(verb, value)).NotTo(ContainSubstring(secret), "%T by %s", value, verb)
			}
			Expect(format.Object(value, 0)).NotTo(ContainSubstring(secret), "%T by reflection", value)
			if text, err := json.Marshal(value); err == nil {
				Expect(string(text)).NotTo(ContainSubstring(secret), "%T as JSON", value)
			}
			var log bytes.Buffer
			logger := zerolog.New(&log)
			logger.Info().Interface("value", value).Any("again", value).Msg("")
			slog.New(slog.NewTextHandler(&log, nil)).Info("", "value", value)
			slog.New(slog.NewJSONHandler(&log, nil)).Info("", "value", value)
			Expect(log.String()).NotTo(ContainSubstring(secret), "%T in a log", value)
		}
	}

	It("is not printed with connections, options or their users", func() {
		secured := startRedis(redisserver.Options{Password: secret})
		for _, link := range []*bullmq.Connection{
			bullmq.URL("redis://:" + secret + "@" + secured.Addr()),
			bullmq.Options(rueidis.ClientOption{InitAddress: []string{secured.Addr()}, Password: secret}),
		} {
			queueOptions := bullmq.QueueOptions{Connection: link}
			workerOptions := bullmq.WorkerOptions{Connection: link}
			eventsOptions := bullmq.QueueEventsOptions{Connection: link}
			flowOptions := bullmq.FlowProducerOptions{Connection: link}
			shownNowhere(link, queueOptions, &queueOptions, workerOptions, &workerOptions, eventsOptions, &eventsOptions, flowOptions, &flowOptions)
			Expect(fmt.Sprint(link)).To(ContainSubstring(secured.Addr()))
			Expect(fmt.Sprintf("%+v", queueOptions)).To(ContainSubstring(secured.Addr()))

			name := newQueueName()
			queue := newQueue(name, &queueOptions)
			worker := newWorker(name, doNothing, &workerOptions)
			reader := newEvents(name, eventsOptions)
			producer, err := bullmq.NewFlowProducer(context.Background(), &flowOptions)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(producer.Close)
			job, err := queue.Add(specContext(), "paint", nil, nil)
			Expect(err).NotTo(HaveOccurred())
			for _, user := range []any{queue, worker, reader, producer, job} {
				for _, verb := range []string{"%v", "%+v", "%#v"} {
					Expect(fmt.Sprintf(verb, user)).NotTo(ContainSubstring(secret), "%T by %s", user, verb)
				}
			}
		}
		Expect(fmt.Sprintf("%#v", bullmq.URL("redis://a:"+secret+"@h:1"))).To(Equal("bullmq.Connection(redis://***@h:1)"))
	})

	It("is in no error about an invalid URL, an unreachable server, a wrong password or a missing permission", func() {
		secured := startRedis(redisserver.Options{Password: "right", ACL: []string{"few on >" + secret + " ~bull:* +@all -evalsha -xread -bzpopmin"}})
		port, err := redisserver.FreePort()
		Expect(err).NotTo(HaveOccurred())
		var errs []any
		for _, address := range []string{
			"redis://:" + secret + "@" + secured.Addr(), "redis://nobody:" + secret + "@" + secured.Addr(), fmt.Sprint("redis://u:", secret, "@127.0.0.1:", port),
			"redis://u:" + secret + "@h:port", "redis://u:%zz" + secret + "@h:1", "gopher://u:" + secret + "@h:1", "redis://u:" + secret + "@h:1/db",
			"redis://u:" + secret + "@h:1?db=x", "rediss://u:" + secret + "@h:1?skip_verify=x", "redis://u:" + secret + "@h:1?dial_timeout=x", "u:" + secret + "@h",
		} {
			_, err := bullmq.NewQueue(context.Background(), "q", &bullmq.QueueOptions{Connection: bullmq.URL(address)})
			Expect(err).To(HaveOccurred(), address)
			errs = append(errs, err)
		}
		few := bullmq.URL("redis://few:" + secret + "@" + secured.Addr())
		_, err = newQueue("q", &bullmq.QueueOptions{Connection: few}).Add(specContext(), "paint", nil, nil)
		Expect(err).To(MatchError(ContainSubstring("NOPERM")))
		errs = append(errs, err)
		for _, err := range newEvents("q", bullmq.QueueEventsOptions{Connection: few}).All(specContext()) {
			Expect(err).To(HaveOccurred())
			errs = append(errs, err)
			break
		}
		shownNowhere(errs...)
	})

	DescribeTable("is in no log while a server stops, changes its password and restarts,", func(loggerTo func(io.Writer) bullmq.Logger) {
		secured := startRedis(redisserver.Options{Password: secret})
		link := bullmq.URL(secured.URL())
		var log sharedLog
		logger := loggerTo(&log)
		name := newQueueName()
		queue := newQueue(name, &bullmq.QueueOptions{Connection: link, Logger: logger})
		runWorker(name, func(context.Context, *bullmq.Job) (any, error) { return nil, nil }, &bullmq.WorkerOptions{Connection: link, Logger: logger})
		reader := newEvents(name, bullmq.QueueEventsOptions{Connection: link, Logger: logger})
		ending, end := context.WithCancel(specContext())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := range reader.All(ending) {
				if err != nil {
					_, _ = fmt.Fprintln(&log, "events:", err)
				}
			}
		}()
		DeferCleanup(func() { end(); Eventually(ended).Should(BeClosed()) })
		job, err := queue.Add(specContext(), "paint", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		_, err = job.Wait(specContext(), queue)
		Expect(err).NotTo(HaveOccurred())

		secured.Kill()
		Eventually(log.String).Should(And(ContainSubstring("connection refused"), ContainSubstring("events: ")))
		_, err = queue.Add(specContext(), "paint", nil, nil)
		Expect(err).To(HaveOccurred())
		shownNowhere(err)
		Expect(secured.Start()).To(Succeed())
		admin, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{secured.Addr()}, Password: secret, DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		defer admin.Close()
		Expect(admin.Do(specContext(), admin.B().Arbitrary("CONFIG", "SET", "requirepass", "another").Build()).Error()).To(Succeed())
		Expect(admin.Do(specContext(), admin.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Build()).Error()).To(Succeed())
		Eventually(log.String).WithTimeout(10 * time.Second).Should(ContainSubstring("WRONGPASS"))
		Expect(log.String()).NotTo(ContainSubstring(secret))
	},
		Entry("with zerolog", func(to io.Writer) bullmq.Logger { return bullmq.Zerolog(zerolog.New(to).Level(zerolog.TraceLevel)) }),
		Entry("with slog", func(to io.Writer) bullmq.Logger {
			return bullmq.Slog(slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug})))
		}),
	)
})
