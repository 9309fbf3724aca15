package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

var _ = Describe("The JSON API", func() {
	ctx := context.Background()
	type object = map[string]any
	hiding := func(names ...string) *dashboard.Options {
		return &dashboard.Options{Access: func(_ *http.Request, use dashboard.Use) error {
			for _, name := range names {
				if use.Queue == name {
					return errors.New("not for you")
				}
			}
			return nil
		}}
	}

	It("reads a scheduler with its next times, its runs and its template", func() {
		a := openAPI(&dashboard.Options{Redact: func(_, _ string, value []byte) []byte {
			return []byte(strings.ReplaceAll(string(value), "secret", "***"))
		}})
		queue := a.queue("orders")
		start := time.Now().Add(time.Hour).Truncate(time.Hour)
		_, err := queue.UpsertScheduler(ctx, "a/b", bullmq.Repeat{Every: time.Hour, StartDate: start, Limit: 3}, &bullmq.JobTemplate{
			Name: "count", Data: object{"key": "secret"}, Options: &bullmq.JobOptions{Attempts: 4},
		})
		Expect(err).NotTo(HaveOccurred())
		_, reply := a.call("GET", "/api/v1/queues/orders/schedulers", nil)
		address := reply["schedulers"].([]any)[0].(object)["url"].(string)
		_, reply = a.call("GET", address, nil)
		Expect(reply).To(And(
			HaveKeyWithValue("id", "a/b"), HaveKeyWithValue("every", 3600000.0), HaveKeyWithValue("limit", 3.0), HaveKeyWithValue("ends", true), HaveKeyWithValue("pausedAt", BeNil()),
			HaveKeyWithValue("data", object{"key": "***"}), HaveKeyWithValue("opts", HaveKeyWithValue("attempts", 4.0)), HaveKeyWithValue("nextJob", HaveKeyWithValue("state", "delayed"))))
		first := float64(start.UnixMilli())
		Expect(reply["times"]).To(Equal([]any{first, first + 3600000, first + 7200000}))
		_, text := a.get(address + "/values/data")
		Expect(text).To(Equal(`{"key":"***"}`))
		response, _ := a.get(address + "/values/none")
		Expect(response.StatusCode).To(Equal(404))
		status, reply := a.call("GET", "/api/v1/queues/orders/schedulers/none", nil)
		Expect([]any{status, code(reply)}).To(Equal([]any{404, "not_found"}))

		Expect(queue.PauseScheduler(ctx, "a/b")).To(Succeed())
		_, reply = a.call("GET", address, nil)
		Expect(reply).To(And(HaveKeyWithValue("pausedAt", BeNumerically(">", 0)), HaveKeyWithValue("times", BeEmpty()), HaveKeyWithValue("nextJob", BeNil())))
		_, reply = a.call("GET", "/api/v1/schedulers", nil)
		Expect(reply).To(And(HaveKeyWithValue("total", 1.0), HaveKeyWithValue("paused", 1.0), HaveKeyWithValue("schedulers", HaveLen(1))))
	})

	It("cuts a long template of a scheduler with a way to the whole", func() {
		a := openAPI(nil)
		long := `"` + strings.Repeat("x", 2<<20) + `"`
		_, err := a.queue("orders").UpsertScheduler(ctx, "one", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Data: json.RawMessage(long)})
		Expect(err).NotTo(HaveOccurred())
		_, reply := a.call("GET", "/api/v1/queues/orders/schedulers/one", nil)
		Expect(reply["data"]).To(BeNil())
		_, text := a.get(reply["cut"].(object)["data"].(object)["url"].(string))
		Expect(text).To(Equal(long))
		page := a.page("/queues/orders/schedulers/one")
		Expect(len(page)).To(BeNumerically("<", 100_000))
		Expect(page).To(ContainSubstring(`<a href="/queues/orders/schedulers/one/raw/data">The whole value</a>`))
		_, text = a.get("/queues/orders/schedulers/one/raw/data")
		Expect(text).To(Equal(long))
	})

	It("reads the schedulers of all queues page by page", func() {
		a := openAPI(hiding("secret"))
		for _, name := range []string{"a", "b", "c", "secret"} {
			for i := range 30 {
				_, err := a.queue(name).UpsertScheduler(ctx, fmt.Sprint(name, i), bullmq.Repeat{Every: time.Hour}, nil)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		seen, query := map[any]bool{}, ""
		for pages := 0; ; pages++ {
			Expect(pages).To(BeNumerically("<", 5))
			_, reply := a.call("GET", "/api/v1/schedulers"+query, nil)
			for _, s := range reply["schedulers"].([]any) {
				seen[s.(object)["id"]] = true
				Expect(s).NotTo(HaveKeyWithValue("queue", "secret"))
			}
			if reply["next"] == nil {
				break
			}
			query = "?after=" + reply["next"].(string)
		}
		Expect(seen).To(HaveLen(90))
	})

	It("reads routes and shards, without those of hidden queues", func() {
		a := openAPI(hiding("orders@gpu", "{tasks-1}"))
		for _, target := range []bullmq.Target{{Capabilities: []string{"gpu"}}, {Capabilities: []string{"cpu", "tpu"}, Mode: bullmq.MatchAny}, {Region: "eu"}} {
			_, err := a.queue("orders").Add(ctx, "resize", nil, &bullmq.JobOptions{Target: &target})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, name := range []string{"{tasks-0}", "{tasks-1}", "{tasks-2}"} {
			_, err := a.queue(name).Add(ctx, "a", nil, nil)
			Expect(err).NotTo(HaveOccurred())
		}
		_, reply := a.call("GET", "/api/v1/routes", nil)
		Expect(reply["routed"]).To(ConsistOf(And(HaveKeyWithValue("name", "orders"), HaveKeyWithValue("routes", 2.0), HaveKeyWithValue("unserved", 2.0), HaveKeyWithValue("url", "/api/v1/queues/orders/routes"))))
		generation := reply["sharded"].([]any)[0].(object)["generations"].([]any)[0].(object)
		Expect(generation).To(And(HaveKeyWithValue("current", true), HaveKeyWithValue("unseen", 1.0)))
		Expect(generation["shards"]).To(HaveExactElements(HaveKeyWithValue("index", 0.0), And(HaveKeyWithValue("index", 2.0), HaveKeyWithValue("ready", 1.0))))
		_, reply = a.call("GET", "/api/v1/queues/orders/routes", nil)
		Expect(reply["routes"]).To(ConsistOf(
			And(HaveKeyWithValue("match", "any"), HaveKeyWithValue("capabilities", []any{"cpu", "tpu"}), HaveKeyWithValue("served", false), HaveKeyWithValue("ready", 1.0)),
			And(HaveKeyWithValue("match", "all"), HaveKeyWithValue("region", "eu"))))
	})

	It("reads a flow from its root or from a job, bounded, without the names of hidden queues", func() {
		a := openAPI(hiding("secret"))
		producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: a.connection})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		children := []bullmq.Flow{{Name: "pay", QueueName: "secret", Options: &bullmq.JobOptions{JobID: "hush"}}}
		for i := range 5 {
			children = append(children, bullmq.Flow{Name: "pack", QueueName: "items", Options: &bullmq.JobOptions{JobID: fmt.Sprint("item-", i)}})
		}
		_, err = producer.Add(ctx, bullmq.Flow{Name: "all", QueueName: "ships", Options: &bullmq.JobOptions{JobID: "root"}, Children: []bullmq.Flow{{
			Name: "ship", QueueName: "ships", Options: &bullmq.JobOptions{JobID: "mid"}, Children: children,
		}}})
		Expect(err).NotTo(HaveOccurred())
		_, reply := a.call("GET", "/api/v1/queues/items/jobs/item-1/flow", nil)
		root := reply["root"].(object)
		Expect(root).To(And(HaveKeyWithValue("id", "root"), HaveKeyWithValue("state", "waiting-children"), HaveKeyWithValue("url", "/api/v1/queues/ships/jobs/root")))
		middle := root["children"].([]any)[0].(object)
		Expect(middle["children"]).To(HaveLen(6))
		Expect(middle["children"]).To(ContainElement(And(HaveKeyWithValue("hidden", true), HaveKeyWithValue("outcome", "unprocessed"), Not(HaveKey("id")), Not(HaveKey("name")))))
		Expect(reply["ancestors"]).To(HaveExactElements(HaveKeyWithValue("id", "mid"), HaveKeyWithValue("id", "root")))
		_, text := a.get("/api/v1/queues/items/jobs/item-1/flow")
		Expect(text).NotTo(Or(ContainSubstring("hush"), ContainSubstring("secret"), ContainSubstring("pay")))

		_, reply = a.call("GET", "/api/v1/queues/ships/jobs/mid/flow?from=here&limit=4", nil)
		Expect(reply).To(And(HaveKeyWithValue("nodes", 4.0), HaveKeyWithValue("leftOut", 3.0), HaveKeyWithValue("ancestors", HaveExactElements(HaveKeyWithValue("id", "root")))))
		_, reply = a.call("GET", "/api/v1/queues/ships/jobs/root/flow?depth=2&children=2", nil)
		Expect(reply["root"].(object)["children"].([]any)[0]).To(And(HaveKeyWithValue("children", BeEmpty()), HaveKeyWithValue("leftOut", 6.0), HaveKeyWithValue("counts", HaveKeyWithValue("unprocessed", 6.0))))
		for _, query := range []string{"limit=100000", "depth=41", "children=x", "from=there"} {
			status, reply := a.call("GET", "/api/v1/queues/ships/jobs/root/flow?"+query, nil)
			Expect([]any{status, code(reply)}).To(Equal([]any{400, "bad_request"}), query)
		}
		status, _ := a.call("GET", "/api/v1/queues/ships/jobs/none/flow", nil)
		Expect(status).To(Equal(404))
	})

	It("reads the metrics of a queue and of all queues", func() {
		a := openAPI(hiding("secret"))
		a.queue("orders")
		a.queue("secret")
		minute := time.Now().Truncate(time.Minute).Add(-3 * time.Minute)
		for i := 1; i <= 100; i++ {
			a.finishedJob("orders", fmt.Sprint("a", i), "paint", time.Duration(i)*10*time.Millisecond, time.Duration(i)*time.Millisecond, minute.Add(time.Duration(i)*time.Millisecond))
		}
		for _, name := range []string{"orders", "secret"} {
			a.storeMetrics(name, "completed", time.Now(), 100, 0, 4, 5)
			a.storeMetrics(name, "failed", time.Now(), 3, 0, 1, 2)
		}
		_, reply := a.call("GET", "/api/v1/queues/orders/metrics", nil)
		Expect(reply).To(And(HaveKeyWithValue("bucket", 60000.0), HaveKeyWithValue("stored", true), HaveKeyWithValue("buckets", HaveLen(60))))
		Expect(reply["timed"]).To(Equal(object{"jobs": 100.0, "more": false, "unknown": 0.0}))
		Expect(reply["buckets"]).To(ContainElement(And(HaveKeyWithValue("at", float64(minute.UnixMilli())), HaveKeyWithValue("run", object{"jobs": 100.0, "p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}))))
		Expect(reply["names"]).To(ConsistOf(And(HaveKeyWithValue("name", "paint"), HaveKeyWithValue("jobs", 100.0))))
		_, reply = a.call("GET", "/api/v1/queues/orders/metrics?range=24h", nil)
		Expect(reply).To(And(HaveKeyWithValue("bucket", 900000.0), HaveKeyWithValue("buckets", HaveLen(96))))
		status, _ := a.call("GET", "/api/v1/queues/orders/metrics?range=year", nil)
		Expect(status).To(Equal(400))
		_, reply = a.call("GET", "/api/v1/metrics", nil)
		Expect(reply["queues"]).To(ConsistOf(And(HaveKeyWithValue("name", "orders"), HaveKeyWithValue("completed", 9.0), HaveKeyWithValue("failed", 3.0), HaveKeyWithValue("failureRatio", 0.25))))
	})

	It("reads the server, with the version of each queue, and with memory its estimate", func() {
		a := openAPI(hiding("secret"))
		for name, n := range map[string]int{"orders": 30, "mails": 2, "secret": 1} {
			for range n {
				_, err := a.queue(name).Add(ctx, "paint", strings.Repeat("x", 1000), nil)
				Expect(err).NotTo(HaveOccurred())
			}
		}
		a.redisText("HSET", "bull:mails:meta", "version", "bullmq:5.81.5")
		a.redisText("SET", "bull:broken:wait", "not a list")
		a.redisText("HSET", "bull:broken:meta", "version", "bullmq:6.7.0")
		_, reply := a.call("GET", "/api/v1/server", nil)
		Expect(reply["nodes"]).To(ConsistOf(And(HaveKeyWithValue("evictionPolicy", "noeviction"), HaveKeyWithValue("maxMemory", 0.0), HaveKeyWithValue("latency", BeNumerically(">", 0)), HaveKeyWithValue("usedMemory", BeNumerically(">", 1e5)))))
		Expect(reply["versions"]).To(ConsistOf(object{"version": "6.7.0", "dialect": 6.0, "queues": 1.0}, object{"version": "5.81.5", "dialect": 5.0, "queues": 1.0}))
		Expect(reply["queues"]).To(HaveExactElements(
			And(HaveKeyWithValue("name", "orders"), HaveKeyWithValue("jobs", 30.0), HaveKeyWithValue("version", "6.7.0"), Not(HaveKey("memory"))),
			And(HaveKeyWithValue("name", "mails"), HaveKeyWithValue("dialect", 5.0)), HaveKey("error")))
		_, reply = a.call("GET", "/api/v1/server?memory=true", nil)
		Expect(reply["queues"].([]any)[0]).To(HaveKeyWithValue("memory", And(HaveKeyWithValue("bytes", BeNumerically(">", 30_000)), HaveKeyWithValue("keys", BeNumerically(">=", 30)),
			HaveKeyWithValue("jobs", HaveKeyWithValue("waiting", BeNumerically(">", 30_000))), HaveKeyWithValue("sampled", 10.0))))
		Expect(reply["memoryError"]).To(ContainSubstring("broken"))
	})
})
