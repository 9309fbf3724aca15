package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// world is a Redis with queues, workers in Go and Node, and a dashboard.
type world struct {
	ctx        context.Context
	redis      *redisserver.Server
	connection *bullmq.Connection
	web        *httptest.Server
	queues     map[string]*bullmq.Queue
	ids        map[string]string // ids of jobs, by what they show
	odd        string            // name of some jobs and schedulers
}

// openWorld opens an empty world until the spec or the suite ends.
func openWorld(options *dashboard.Options) *world {
	GinkgoHelper()
	w := &world{ctx: context.Background(), queues: map[string]*bullmq.Queue{}, ids: map[string]string{}}
	var err error
	w.redis, err = redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.redis.Close)
	w.connection, err = bullmq.Connect(w.ctx, w.redis.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.connection.Close)
	DeferCleanup(func() {
		for _, queue := range w.queues {
			Expect(queue.Close()).To(Succeed())
		}
	})
	pages, err := dashboard.New(w.connection, options)
	Expect(err).NotTo(HaveOccurred())
	w.web = httptest.NewServer(pages)
	DeferCleanup(func() { w.web.CloseClientConnections(); w.web.Close() })
	return w
}

// at returns the address of a page. Each part after the first is escaped.
func (w *world) at(path string, parts ...string) string {
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return w.web.URL + path
}

// queue returns a queue by its name.
func (w *world) queue(name string) *bullmq.Queue {
	GinkgoHelper()
	if w.queues[name] == nil {
		queue, err := bullmq.NewQueue(w.ctx, name, &bullmq.QueueOptions{Connection: w.connection})
		Expect(err).NotTo(HaveOccurred())
		w.queues[name] = queue
	}
	return w.queues[name]
}

// add adds a job and returns its id.
func (w *world) add(queue, name string, data any, options *bullmq.JobOptions) string {
	GinkgoHelper()
	job, err := w.queue(queue).Add(w.ctx, name, data, options)
	Expect(err).NotTo(HaveOccurred())
	return job.ID
}

// work runs a worker until the spec or the suite ends.
func (w *world) work(queue, name string, handler bullmq.Handler) {
	GinkgoHelper()
	if handler == nil {
		handler = func(context.Context, *bullmq.Job) (any, error) { return nil, nil }
	}
	options := &bullmq.WorkerOptions{Connection: w.connection, Name: name, MetricsPoints: 60, DrainDelay: time.Second}
	worker, err := bullmq.NewWorker(w.ctx, queue, handler, options)
	Expect(err).NotTo(HaveOccurred())
	running, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	DeferCleanup(func() { stop(); Expect(<-ended).To(Succeed()) })
}

// node runs a Node program until the spec or the suite ends. It returns the program with the
// line that it wrote when it was ready.
func (w *world) node(script string, arguments ...string) (*nodeprocess.Process, nodeprocess.Line) {
	GinkgoHelper()
	program, err := nodeprocess.Start(script, append([]string{"-redis", w.redis.Addr()}, arguments...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(program.Stop)
	ctx, cancel := context.WithTimeout(w.ctx, stepLimit)
	defer cancel()
	line, err := program.WaitFor(ctx, func(line nodeprocess.Line) bool { return strings.Contains(line.String(), `"ready"`) })
	Expect(err).NotTo(HaveOccurred())
	return program, line
}

// exists reports whether a key exists.
func (w *world) exists(key string) bool {
	GinkgoHelper()
	reply := w.command("EXISTS", key)
	n, err := reply.AsInt64()
	Expect(err).NotTo(HaveOccurred())
	return n == 1
}

// command sends one command to Redis.
func (w *world) command(words ...string) rueidis.RedisMessage {
	GinkgoHelper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{w.redis.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	defer client.Close()
	reply, err := client.Do(w.ctx, client.B().Arbitrary(words...).Build()).ToMessage()
	Expect(err).NotTo(HaveOccurred())
	return reply
}

// state waits until a job has a state.
func (w *world) reaches(queue, id string, state bullmq.State) {
	GinkgoHelper()
	Eventually(func() (bullmq.State, error) { return w.queue(queue).JobState(w.ctx, id) }).Should(Equal(state), "%s of %s", id, queue)
}

// Names and texts that try to be markup, to break the layout, or to reorder what follows.
const (
	hostileQueue = `<img src=x onerror=alert(1)> & "mail's"`
	hostileName  = `<script>alert("name")</script>`
	hostileText  = "</pre><script>alert(1)</script>\u202e\x1b[31mred\x1b[0m {{.}} ${7*7} \u0000 \ufffd"
)

// fill makes jobs of all kinds and waits until nothing changes any more.
func (w *world) fill() {
	GinkgoHelper()
	ctx := w.ctx
	if w.odd == "" {
		w.odd = hostileName
	}
	end := make(chan struct{}) // of the job that is active
	w.work("orders", "packer", func(ctx context.Context, job *bullmq.Job) (any, error) {
		switch job.Name {
		case "hold":
			<-end
			return nil, nil
		case "pack":
			for _, line := range []string{"the box is open", "<b>3 items</b> & a card", "the box is closed"} {
				if _, err := job.Log(ctx, line); err != nil {
					return nil, err
				}
			}
			return map[string]any{"weight": 2.5, "boxes": 1}, job.UpdateProgress(ctx, 100)
		case "label":
			panic("the printer is on fire")
		}
		return nil, fmt.Errorf("the address has no %s: %w", strings.Repeat("street ", 12), errors.New("refused by the carrier"))
	})
	DeferCleanup(func() { close(end) })
	pack := w.add("orders", "pack", map[string]any{"order": 4711, "items": []string{"tea", "cup", "spoon"}, "gift": true}, nil)
	w.ids["completed"] = pack
	w.ids["panicked"] = w.add("orders", "label", map[string]any{"order": 4712}, nil)
	w.ids["failed"] = w.add("orders", "send", map[string]any{"order": 4713, "address": map[string]string{"city": "Bremen"}}, &bullmq.JobOptions{Attempts: 2, Backoff: &bullmq.Backoff{Type: "fixed", Delay: time.Millisecond}})
	w.reaches("orders", pack, bullmq.StateCompleted)
	w.reaches("orders", w.ids["panicked"], bullmq.StateFailed)
	w.reaches("orders", w.ids["failed"], bullmq.StateFailed)
	w.ids["active"] = w.add("orders", "hold", map[string]any{"order": 4714}, nil)
	w.reaches("orders", w.ids["active"], bullmq.StateActive)
	for i := range 3 {
		w.ids["waiting"] = w.add("orders", "pack", map[string]any{"order": 4715 + i}, nil)
	}
	w.ids["prioritized"] = w.add("orders", "pack", map[string]any{"order": 4720}, &bullmq.JobOptions{Priority: 10})
	w.ids["delayed"] = w.add("orders", "pack", map[string]any{"order": 4721}, &bullmq.JobOptions{Delay: time.Hour, Deduplication: &bullmq.Deduplication{ID: "order-4721"}})

	// Node works on the mails.
	w.node("worker.mjs", "-queue", "mails", "-name", "mailer", "-concurrency", "2")
	w.ids["mail"] = w.add("mails", "welcome", map[string]any{"sequence": 1}, nil)
	w.ids["bounced"] = w.add("mails", "invoice", map[string]any{"sequence": 2, "failUntilAttempt": 9}, nil)
	w.reaches("mails", w.ids["mail"], bullmq.StateCompleted)
	w.reaches("mails", w.ids["bounced"], bullmq.StateFailed)

	// The reports have schedulers, and no worker.
	for id, repeat := range map[string]bullmq.Repeat{
		"every-quarter": {Every: 15 * time.Minute, Offset: time.Minute}, "weekdays": {Pattern: "0 30 9 * * 1-5", TimeZone: "Europe/Berlin"}, w.odd: {Pattern: "0 0 1 1 *", TimeZone: "UTC"},
	} {
		_, err := w.queue("reports").UpsertScheduler(ctx, id, repeat, &bullmq.JobTemplate{Name: "report", Data: map[string]any{"kind": id}})
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(w.queue("reports").Pause(ctx)).To(Succeed())
	Expect(w.queue("reports").SetGlobalConcurrency(ctx, 4)).To(Succeed())
	w.flow()
	w.deadLetters("payments", "payments-dead")
	w.shares()
	w.measured("orders", 40, 2)
	w.measured("mails", 25, 5)
	if w.odd == hostileName {
		w.hostile()
	}
}

// shares makes a queue with a route that no worker serves, and a queue of three shards.
func (w *world) shares() {
	GinkgoHelper()
	for range 2 {
		w.add("thumbnails", "scale", map[string]any{"width": 200}, &bullmq.JobOptions{Target: &bullmq.Target{Capabilities: []string{"gpu"}, Region: "us-east"}})
	}
	clicks, err := bullmq.NewShardedQueue(w.ctx, "clicks", 3, &bullmq.ShardedQueueOptions{Connections: []*bullmq.Connection{w.connection}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(clicks.Close)
	for i := range 6 {
		_, err := clicks.Add(w.ctx, "count", map[string]any{"click": i}, nil)
		Expect(err).NotTo(HaveOccurred())
	}
}

// flow makes a flow with children that are completed, failed, ignored and pending.
func (w *world) flow() {
	GinkgoHelper()
	producer, err := bullmq.NewFlowProducer(w.ctx, &bullmq.FlowProducerOptions{Connection: w.connection})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(producer.Close)
	fails := map[string]any{"failUntilAttempt": 9}
	root, err := producer.Add(w.ctx, bullmq.Flow{Name: "ship", QueueName: "shipping", Data: map[string]any{"order": 4711}, Children: []bullmq.Flow{
		{Name: "confirm", QueueName: "mails", Data: map[string]any{"sequence": 3}},
		{Name: "advertise", QueueName: "mails", Data: fails, Options: &bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}},
		{Name: "invoice", QueueName: "mails", Data: fails},
		{Name: "load", QueueName: "shipping", Children: []bullmq.Flow{{Name: "fetch", QueueName: "shipping"}, {Name: w.odd, QueueName: "shipping", Options: &bullmq.JobOptions{Delay: time.Hour}}}},
	}})
	Expect(err).NotTo(HaveOccurred())
	w.ids["flow"] = root.Job.ID
	for i, state := range []bullmq.State{bullmq.StateCompleted, bullmq.StateFailed, bullmq.StateFailed} {
		w.reaches("mails", root.Children[i].Job.ID, state)
	}
	w.ids["child"] = root.Children[0].Job.ID
}

// deadLetters makes two dead letters of a queue in another one.
func (w *world) deadLetters(origin, queue string) {
	GinkgoHelper()
	running, stop := context.WithCancel(w.ctx)
	moved := make(chan string, 2)
	worker, err := bullmq.NewWorker(w.ctx, origin, func(context.Context, *bullmq.Job) (any, error) {
		return nil, errors.New("the card has expired")
	}, &bullmq.WorkerOptions{Connection: w.connection, Name: "cashier", DeadLetters: &bullmq.DeadLetterOptions{QueueName: queue, OnMoved: func(_ context.Context, letter bullmq.DeadLetter) {
		moved <- letter.Letter.ID
	}}})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	for i := range 2 {
		w.add(origin, "charge", map[string]any{"order": 4730 + i}, nil)
		Eventually(moved).Should(Receive(new(string)))
	}
	stop()
	Eventually(ended).Should(Receive(Succeed()))
}

// hostile makes a queue and jobs that try to break the pages.
func (w *world) hostile() {
	GinkgoHelper()
	deep := strings.Repeat(`{"a":[`, 50) + `"` + "deep" + `"` + strings.Repeat(`]}`, 50)
	w.ids["hostile"] = w.add(hostileQueue, hostileName, map[string]any{"text": hostileText, "wide": strings.Repeat("w", 5000)}, nil)
	w.ids["large"] = w.add(hostileQueue, strings.Repeat("Long name ", 100), map[string]any{"text": strings.Repeat("<b>many bytes</b> ", 200_000)}, nil)
	w.ids["deep"] = w.add(hostileQueue, strings.Repeat("x", 300), rawJSON(deep), nil)
	w.ids["broken"] = w.add(hostileQueue, "broken", nil, &bullmq.JobOptions{JobID: `<i>id</i>/../..?#%2e`})
	w.command("HSET", "bull:"+hostileQueue+":"+w.ids["broken"], "data", "{\"x\":\"\xff\xfe\xc3\"", "name", "\xe2\x28\xa1 name", "failedReason", hostileText, "stacktrace", `["`+strings.Repeat("at <b>x</b> ", 2000)+`"]`)
	for range 3 {
		_, err := w.queue(hostileQueue).AddJobLog(w.ctx, w.ids["hostile"], hostileText, nil)
		Expect(err).NotTo(HaveOccurred())
	}
}

// rawJSON is JSON that is stored as it is.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }
