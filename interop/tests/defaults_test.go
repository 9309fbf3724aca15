package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// defaultsOfQueues are default job options of queues as a Node program writes them.
var defaultsOfQueues = []string{
	`{}`,
	`{"attempts":3,"delay":3600000,"priority":7,"lifo":true,"backoff":{"type":"fixed","delay":1000},"keepLogs":5,"removeOnComplete":10,"removeOnFail":true,"sizeLimit":100,"stackTraceLimit":3}`,
	`{"attempts":0,"delay":0,"priority":0,"lifo":false,"keepLogs":0,"backoff":0}`,
	`{"attempts":null,"tenant":"a","shard":1,"timestamp":1700000000000,"backoff":500,"removeOnFail":{"age":60,"count":5}}`,
	`{"failParentOnFailure":true,"deduplication":{"id":"d","ttl":60000},"removeOnComplete":true,"delay":500}`,
	`{"telemetry":{"metadata":"m","omitContext":true},"priority":3,"tenant":null}`,
}

// optionsOfJobs are options of single jobs. Those that Go can express have Go's options next to the JSON.
var optionsOfJobs = []struct {
	json string
	inGo *bullmq.JobOptions
}{
	{`{}`, &bullmq.JobOptions{}},
	{`{"delay":0,"priority":0,"lifo":false,"keepLogs":0,"backoff":0}`, nil},
	{`{"delay":0}`, nil}, {`{"priority":0}`, nil}, {`{"lifo":false}`, nil}, {`{"keepLogs":0}`, nil}, {`{"attempts":0}`, nil},
	{`{"sizeLimit":0,"stackTraceLimit":0}`, &bullmq.JobOptions{StackTraceLimit: bullmq.NoStackTraces, Extra: raw(`{"sizeLimit":0}`)}},
	{`{"backoff":0}`, nil}, {`{"backoff":false}`, nil}, {`{"backoff":""}`, nil},
	{`{"backoff":{"type":"fixed","delay":0}}`, nil}, {`{"backoff":{"type":"tide","jitter":0}}`, nil},
	{`{"removeOnComplete":false,"removeOnFail":false}`, &bullmq.JobOptions{KeepCompleted: bullmq.KeepAll(), KeepFailed: bullmq.KeepAll()}},
	{`{"removeOnComplete":0,"removeOnFail":{"count":0}}`, nil},
	{`{"delay":null,"lifo":null}`, &bullmq.JobOptions{Reset: []string{"delay", "lifo"}}},
	{`{"attempts":null}`, &bullmq.JobOptions{Reset: []string{"attempts"}}},
	{`{"priority":null,"keepLogs":null,"backoff":null}`, &bullmq.JobOptions{Reset: []string{"priority", "keepLogs", "backoff"}}},
	{`{"removeOnComplete":null,"removeOnFail":null,"sizeLimit":null,"stackTraceLimit":null}`,
		&bullmq.JobOptions{Reset: []string{"removeOnComplete", "removeOnFail", "sizeLimit", "stackTraceLimit"}}},
	{`{"deduplication":null,"failParentOnFailure":null}`, &bullmq.JobOptions{Reset: []string{"deduplication", "failParentOnFailure"}}},
	{`{"failParentOnFailure":false,"continueParentOnFailure":true}`,
		&bullmq.JobOptions{OnFailure: bullmq.ContinueParent, Extra: raw(`{"failParentOnFailure":false}`)}},
	{`{"continueParentOnFailure":true}`, &bullmq.JobOptions{OnFailure: bullmq.ContinueParent}},
	{`{"timestamp":null}`, &bullmq.JobOptions{Reset: []string{"timestamp"}}},
	{`{"delay":60000,"priority":2,"attempts":5,"keepLogs":1}`, &bullmq.JobOptions{Delay: time.Minute, Priority: 2, Attempts: 5, KeepLogs: 1}},
	{`{"delay":60000,"priority":0}`, &bullmq.JobOptions{Delay: time.Minute, Extra: raw(`{"priority":0,"delay":1}`)}},
	{`{"delay":5}`, &bullmq.JobOptions{Extra: raw(`{"delay":5}`)}},
	{`{"keepLogs":4}`, &bullmq.JobOptions{Extra: raw(`{"keepLogs":4}`)}}, {`{"keepLogs":4}`, &bullmq.JobOptions{Extra: raw(`{"kl":4,"keepLogs":9}`)}},
	{`{"lifo":true}`, &bullmq.JobOptions{LIFO: true}}, {`{"lifo":0}`, nil}, {`{"lifo":""}`, nil},
	{`{"priority":-1}`, nil}, {`{"priority":1.5}`, nil}, {`{"priority":"2"}`, nil}, {`{"priority":false}`, nil}, {`{"priority":2097152}`, nil},
	{`{"delay":-5}`, &bullmq.JobOptions{Delay: -5 * time.Millisecond}}, {`{"delay":1.5}`, nil}, {`{"delay":"5"}`, nil},
	{`{"attempts":-1,"keepLogs":-1}`, nil}, {`{"sizeLimit":-1}`, nil},
	{`{"requestId":"r"}`, &bullmq.JobOptions{Extra: raw(`{"requestId":"r"}`)}},
	{`{"tenant":"b"}`, &bullmq.JobOptions{Extra: raw(`{"tenant":"b"}`)}}, {`{"tenant":null}`, &bullmq.JobOptions{Extra: raw(`{"tenant":null}`)}},
	{`{"jobId":"own"}`, &bullmq.JobOptions{JobID: "own"}},
	{`{"timestamp":1600000000000}`, &bullmq.JobOptions{Timestamp: time.UnixMilli(1600000000000)}},
}

// unusualOptions are forms that Go's fields cannot express or that only other clients write.
var unusualOptions = []string{
	`{"jobId":5}`, `{"jobId":0}`, `{"jobId":true}`, `{"jobId":1.5}`, `{"jobId":""}`, `{"jobId":"1.5"}`, `{"jobId":"a:b:c"}`,
	`{"parent":null}`, `{"parent":false}`, `{"parent":{}}`,
	`{"parent":{"id":"p","queue":"bull:above"},"failParentOnFailure":1}`, `{"parent":{"id":"p","queue":"bull:above"},"failParentOnFailure":0}`,
	`{"continueParentOnFailure":"y","failParentOnFailure":false}`, `{"ignoreDependencyOnFailure":1,"removeDependencyOnFailure":"y"}`,
	`{"deduplication":{"id":5}}`, `{"deduplication":{"id":5,"ttl":60000,"extend":true}}`, `{"deduplication":{"id":true}}`, `{"deduplication":{"id":0}}`,
	`{"deduplication":{"id":"d","ttl":60000,"extend":1}}`, `{"deduplication":"d"}`, `{"deduplication":{}}`, `{"deduplication":false}`, `{"deduplication":{"id":"d","ttl":0}}`,
	`{"debounce":{"id":"d","ttl":60000}}`, `{"debounce":{"id":"d"}}`, `{"debounce":{"id":"d"},"deduplication":{"id":"e"}}`,
	`{"attempts":"3"}`, `{"attempts":2.5}`, `{"attempts":true}`,
	`{"delay":true}`, `{"delay":{}}`, `{"delay":[5]}`, `{"delay":"x"}`, `{"delay":1e3}`,
	`{"timestamp":true}`, `{"timestamp":"1600000000000"}`, `{"timestamp":1600000000000.5}`,
	`{"priority":true}`, `{"priority":"x"}`, `{"priority":{}}`, `{"lifo":"yes"}`, `{"lifo":{}}`,
	`{"backoff":"5"}`, `{"backoff":true}`, `{"backoff":{}}`, `{"backoff":{"type":5,"delay":"100"}}`, `{"backoff":{"type":"fixed","jitter":2}}`,
	`{"removeOnComplete":"5"}`, `{"removeOnComplete":{"age":"60"}}`, `{"removeOnComplete":1.5}`, `{"removeOnFail":-1}`,
	`{"repeatJobKey":"tick","prevMillis":5}`, `{"repeatJobKey":"tick","delay":60000}`,
	`{"telemetry":{}}`, `{"kl":4}`, `{"Delay":5}`,
}

func raw(text string) (fields map[string]json.RawMessage) {
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		panic(err)
	}
	return fields
}

// read decodes JSON into Go's options.
func read(text string) *bullmq.JobOptions {
	GinkgoHelper()
	o := &bullmq.JobOptions{}
	Expect(json.Unmarshal([]byte(text), o)).To(Succeed())
	return o
}

// template returns the stored options of the scheduler tick, or nil if it has none.
func template(queue string) (opts object) {
	GinkgoHelper()
	if text := stored(queue, "repeat:tick", "opts"); text != missing {
		Expect(json.Unmarshal([]byte(text), &opts)).To(Succeed())
	}
	return opts
}

// entry returns a stored job, without its time unless the options set one.
func entry(queue, id string) object {
	GinkgoHelper()
	hash, err := ask("HGETALL", "bull:"+queue+":"+id).AsStrMap()
	Expect(err).NotTo(HaveOccurred())
	var opts object
	decoder := json.NewDecoder(bytes.NewReader([]byte(hash["opts"])))
	decoder.UseNumber()
	Expect(decoder.Decode(&opts)).To(Succeed())
	shown := object{"opts": opts}
	for name, value := range hash {
		shown[name] = value
	}
	shown["opts"] = opts
	if opts["timestamp"] == nil {
		delete(shown, "timestamp")
	}
	var state string
	node.Do("state", object{"queue": queue, "id": id}, &state)
	shown["state"] = state
	return shown
}

// removeJobs leaves nothing of a queue but its settings, so that it is like a new one.
func removeJobs(queue string) {
	GinkgoHelper()
	keys, err := ask("KEYS", "bull:"+queue+":*").AsStrSlice()
	Expect(err).NotTo(HaveOccurred())
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "bull:"+queue+":meta" })
	if len(keys) > 0 {
		Expect(ask(append([]string{"DEL"}, keys...)...).Error()).To(Succeed())
	}
}

var _ = Describe("The default options of a queue", func() {
	for _, line := range []string{"5", "6"} {
		reference := func() *probe {
			if line == "6" {
				return node
			}
			return startProbe("-bullmq", "5")
		}
		dialect := bullmq.V6
		if line == "5" {
			dialect = bullmq.V5
		}
		// One client serves hundreds of queues.
		var client rueidis.Client
		BeforeEach(func() {
			var err error
			client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(client.Close)
		})
		goQueue := func(defaults string) *bullmq.Queue {
			GinkgoHelper()
			queue, err := bullmq.NewQueue(context.Background(), newQueueName(), &bullmq.QueueOptions{
				Connection: connectClient(client), Dialect: dialect, DefaultJobOptions: read(defaults), BatchSize: batchSize,
			})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(queue.Close)
			return queue
		}
		nodeQueue := func(other *probe, defaults string) (name string) {
			GinkgoHelper()
			name = newQueueName()
			other.Do("openQueue", object{"queue": name, "defaultJobOptions": json.RawMessage(defaults)}, nil)
			return name
		}
		// added returns what Node stores in a queue without other jobs, or nil if Node rejects the options.
		added := func(other *probe, name, options string) object {
			GinkgoHelper()
			removeJobs(name)
			reply := <-other.Send("add", object{"queue": name, "name": "a", "data": object{}, "opts": json.RawMessage(options)})
			if reply.Error != nil {
				return nil
			}
			var job struct{ ID string }
			Expect(json.Unmarshal(reply.Result, &job)).To(Succeed())
			return entry(name, job.ID)
		}

		It("are overridden by a job's options, zeros and nulls included, as in Node "+line, func() {
			other := reference()
			for _, defaults := range defaultsOfQueues {
				nodes, queue := nodeQueue(other, defaults), goQueue(defaults)
				for _, options := range optionsOfJobs {
					want := added(other, nodes, options.json)
					own := []*bullmq.JobOptions{read(options.json)}
					if options.inGo != nil {
						own = append(own, options.inGo)
					}
					for _, o := range own {
						removeJobs(queue.Name())
						job, err := queue.Add(soon(), "a", nil, o)
						_, bulkErr := queue.AddBulk(soon(), []bullmq.BulkJob{{Name: "a", Options: o}})
						what := "defaults " + defaults + ", options " + options.json
						if want == nil && o.OnFailure != "" && strings.Contains(defaults, "failParentOnFailure") {
							// Node merges the two policies and refuses them. In Go the job's own replaces the default.
							Expect(err).NotTo(HaveOccurred(), what)
							Expect(entry(queue.Name(), job.ID)["opts"]).NotTo(HaveKey("fpof"), what)
							continue
						}
						if want == nil {
							Expect(err).To(HaveOccurred(), what)
							Expect(bulkErr).To(HaveOccurred(), what)
							continue
						}
						Expect(err).NotTo(HaveOccurred(), what)
						Expect(bulkErr).NotTo(HaveOccurred(), what)
						Expect(entry(queue.Name(), job.ID)).To(Equal(want), what)
					}
				}
			}
		})

		It("and a job's options in unusual forms are stored or rejected as in Node "+line, func() {
			other := reference()
			Expect(ask("HSET", "bull:above:p", "name", "above").Error()).To(Succeed())
			for _, defaults := range []string{`{}`, `{"failParentOnFailure":true,"foo":{"a":1}}`} {
				nodes, queue := nodeQueue(other, defaults), goQueue(defaults)
				for _, options := range unusualOptions {
					want := added(other, nodes, options)
					removeJobs(queue.Name())
					job, err := queue.Add(soon(), "a", nil, read(options))
					what := "defaults " + defaults + ", options " + options
					if want == nil {
						Expect(err).To(MatchError(HavePrefix("bullmq: job \"a\" was not added to ")), what)
						continue
					}
					Expect(err).NotTo(HaveOccurred(), what)
					Expect(entry(queue.Name(), job.ID)).To(Equal(want), what)
				}
			}
		})

		It("are overridden in flows and scheduler templates as in Node "+line, func() {
			other := reference()
			for _, defaults := range defaultsOfQueues {
				var asNode, inGo []bullmq.Flow
				kids := []object{}
				parentOfNode, parentOfGo, kidsOfNode, kidsOfGo := newQueueName(), newQueueName(), newQueueName(), newQueueName()
				producer, err := bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{
					URL: server.URL(), Dialect: dialect, DefaultJobOptions: map[string]bullmq.JobOptions{kidsOfGo: *read(defaults)},
				})
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(producer.Close)
				queue, schedulers, nodes := goQueue(defaults), nodeQueue(other, defaults), nodeQueue(other, defaults)
				for _, options := range optionsOfJobs {
					if strings.Contains(options.json, "jobId") || strings.Contains(defaults, "deduplication") && options.json != `{"deduplication":null,"failParentOnFailure":null}` ||
						added(other, nodes, options.json) == nil {
						continue
					}
					kids = append(kids, object{"name": "kid", "queueName": kidsOfNode, "data": object{}, "opts": json.RawMessage(options.json)})
					asNode = append(asNode, bullmq.Flow{Name: "kid", QueueName: kidsOfGo, Options: read(options.json)})
					if o := options.inGo; o != nil {
						inGo = append(inGo, bullmq.Flow{Name: "kid", QueueName: kidsOfGo, Options: o})
					} else {
						inGo = append(inGo, asNode[len(asNode)-1])
					}
					var next struct{ ID string }
					other.Do("upsertScheduler", object{"queue": schedulers, "id": "tick", "repeat": object{"every": 3600000},
						"template": object{"name": "a", "opts": json.RawMessage(options.json)}}, &next)
					job, err := queue.UpsertScheduler(soon(), "tick", bullmq.Repeat{Every: time.Hour}, &bullmq.JobTemplate{Name: "a", Options: read(options.json)})
					Expect(err).NotTo(HaveOccurred())
					what := "defaults " + defaults + ", options " + options.json
					Expect(template(queue.Name())).To(Equal(template(schedulers)), what)
					ofGo, ofNode := entry(queue.Name(), job.ID), entry(schedulers, next.ID)
					for _, volatile := range []string{"timestamp", "delay", "jobId"} {
						for _, shown := range []object{ofGo, ofNode} {
							delete(shown["opts"].(object), volatile)
							delete(shown, volatile)
						}
					}
					Expect(ofGo).To(Equal(ofNode), what)
				}
				var tree struct{ Children []struct{ ID string } }
				other.Do("addFlow", object{"flow": object{"name": "par", "queueName": parentOfNode, "data": object{}, "opts": object{"jobId": "par"}, "children": kids},
					"queuesOptions": object{kidsOfNode: object{"defaultJobOptions": json.RawMessage(defaults)}}}, &tree)
				for id, children := range map[string][]bullmq.Flow{"read": asNode, "written": inGo} {
					root, err := producer.Add(soon(), bullmq.Flow{Name: "par", QueueName: parentOfGo, Options: &bullmq.JobOptions{JobID: id}, Children: children})
					Expect(err).NotTo(HaveOccurred())
					for i, kid := range root.Children {
						want := maps.Clone(entry(kidsOfNode, tree.Children[i].ID))
						got := entry(kidsOfGo, kid.Job.ID)
						for _, named := range []string{"parent", "parentKey"} { // different names on purpose
							delete(want, named)
							delete(got, named)
						}
						delete(want["opts"].(object), "parent")
						delete(got["opts"].(object), "parent")
						Expect(got).To(Equal(want), "defaults %s, child %d of %v", defaults, i, kids[i]["opts"])
					}
				}
			}
		})
	}
})
