package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// familyLevels are the queues of the three levels, from the root down.
var familyLevels = []string{"roots", "mids", "leaves"}

// familyPolicies are the failure policies of children. The ids of a family begin with the policy's name.
var familyPolicies = []struct {
	name string
	bullmq.JobOptions
}{
	{"none", bullmq.JobOptions{}},
	{"fail", bullmq.JobOptions{OnFailure: bullmq.FailParent}},
	{"continue", bullmq.JobOptions{OnFailure: bullmq.ContinueParent}},
	{"ignore", bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}},
	{"remove", bullmq.JobOptions{OnFailure: bullmq.RemoveDependency}},
	{"gone", bullmq.JobOptions{KeepFailed: bullmq.KeepNone()}},
}

// families returns trees of a root, two children and four grandchildren, with each policy in turn. In three
// of ten families one member fails. Others fail once and are retried, or have a priority or a delay.
func families(count int) []bullmq.Flow {
	all := make([]bullmq.Flow, count)
	for n := range all {
		policy := familyPolicies[n%len(familyPolicies)]
		turn := n / len(familyPolicies)
		failing := -1
		if turn%10 < 3 {
			failing = (turn/10*3 + turn%10) % 6
		}
		member := func(level int, name string, place int, children ...bullmq.Flow) bullmq.Flow {
			o := policy.JobOptions
			o.JobID = fmt.Sprintf("%s-%d%s", policy.name, n, name)
			data := object{"sequence": n}
			switch {
			case place == failing:
				data["failUntilAttempt"] = 2
			case (turn+place)%7 == 5:
				data["failUntilAttempt"], o.Attempts = 2, 2
			}
			if level < 2 && turn%5 == 2 {
				o.Priority = 1 + n%3
			}
			if level < 2 && turn%5 == 4 {
				o.Delay = 20 * time.Millisecond
			}
			return bullmq.Flow{Name: name, QueueName: familyLevels[level], Data: data, Options: &o, Children: children}
		}
		all[n] = member(0, "-root", 6,
			member(1, "-a", 0, member(2, "-a-a", 1), member(2, "-a-b", 2)),
			member(1, "-b", 3, member(2, "-b-a", 4), member(2, "-b-b", 5)))
	}
	return all
}

// inNode returns a flow in Node's form.
func inNode(flow bullmq.Flow, prefix string) object {
	children := []object{}
	for _, child := range flow.Children {
		children = append(children, inNode(child, prefix))
	}
	return object{"name": flow.Name, "queueName": flow.QueueName, "prefix": prefix, "data": flow.Data, "opts": publicOptions(flow.Options), "children": children}
}

// familyInGo is the handler that worker.mjs has with -family.
func familyInGo(ctx context.Context, job *bullmq.Job) (any, error) {
	var data payload
	if err := job.Decode(&data); err != nil {
		return nil, err
	}
	if attempt := job.AttemptsMade + 1; attempt < data.FailUntilAttempt {
		return nil, fmt.Errorf("attempt %d fails as planned in the job's data", attempt)
	}
	for {
		children, err := job.Dependencies(ctx)
		if err != nil {
			return nil, err
		}
		if len(children.Unprocessed) == 0 {
			return object{"sequence": data.Sequence, "values": children.Processed, "failures": children.Ignored}, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// familyEnd is the final state of a member and what it knows about its children.
type familyEnd struct {
	State, Reason   string
	Value           any
	Values          map[string]any
	Ignored         map[string]string
	Pending, Failed []string
}

var _ = Describe("Hundreds of flows of three levels, some with failing children,", Ordered, func() {
	const count = 500
	var all []bullmq.Flow
	var alone map[string]familyEnd // result with Node only
	ctx := context.Background()
	do := func(words ...string) rueidis.RedisResult { return redis.Do(ctx, redis.B().Arbitrary(words...).Build()) }

	// atRest reports whether no job of any level is pending. A job that finishes releases its parent in the
	// same step, so the levels are checked from the bottom up.
	atRest := func(prefix string) (bool, error) {
		for _, level := range slices.Backward(familyLevels) {
			for state, command := range map[string]string{"wait": "LLEN", "active": "LLEN", "delayed": "ZCARD", "prioritized": "ZCARD"} {
				if n, err := do(command, prefix+":"+level+":"+state).AsInt64(); err != nil || n > 0 {
					return false, err
				}
			}
		}
		return true, nil
	}
	// work runs each level with the library named for it until nothing is pending.
	work := func(prefix string, libraries ...string) {
		GinkgoHelper()
		var stops []func()
		for level, side := range libraries {
			queue := familyLevels[level]
			if side == "Go" {
				stops = append(stops, runGoWorker(queue, familyInGo, bullmq.WorkerOptions{Prefix: prefix, Concurrency: 25}).stop)
				continue
			}
			process := startNode("worker.mjs", "-queue", queue, "-prefix", prefix, "-concurrency", "25", "-family")
			read := make(chan struct{})
			go func() {
				defer close(read)
				defer GinkgoRecover()
				for line := range process.Lines() {
					var message struct{ Event string }
					Expect(line.Decode(&message)).To(Succeed())
					Expect(message.Event).NotTo(Or(Equal("error"), Equal("stalled")), "%s", line)
				}
			}()
			stops = append(stops, func() { process.Stop(); <-read })
		}
		Eventually(atRest).WithArguments(prefix).WithTimeout(time.Minute).WithPolling(50 * time.Millisecond).Should(BeTrue())
		var stopping sync.WaitGroup
		for _, stop := range stops {
			stopping.Go(stop)
		}
		stopping.Wait()
	}
	// ends returns the final state of all members. It replaces the prefix in keys by bull.
	ends := func(prefix string) map[string]familyEnd {
		GinkgoHelper()
		plain := func(text string) string { return strings.ReplaceAll(text, prefix+":", "bull:") }
		value := func(text string) (value any) {
			GinkgoHelper()
			Expect(json.Unmarshal([]byte(text), &value)).To(Succeed(), text)
			return value
		}
		var keys, states []string
		var questions []rueidis.Completed
		for _, queue := range familyLevels {
			for _, state := range []string{"completed", "failed", "waiting-children"} {
				ids, err := do("ZRANGE", prefix+":"+queue+":"+state, "0", "-1").AsStrSlice()
				Expect(err).NotTo(HaveOccurred())
				for _, id := range ids {
					key := prefix + ":" + queue + ":" + id
					keys, states = append(keys, key), append(states, state)
					for _, words := range [][]string{
						{"HGETALL", key}, {"HGETALL", key + ":processed"}, {"HGETALL", key + ":failed"},
						{"SMEMBERS", key + ":dependencies"}, {"ZRANGE", key + ":unsuccessful", "0", "-1"},
					} {
						questions = append(questions, redis.B().Arbitrary(words...).Build())
					}
				}
			}
		}
		replies := redis.DoMulti(ctx, questions...)
		fields := func(reply rueidis.RedisResult) map[string]string {
			GinkgoHelper()
			read, err := reply.AsStrMap()
			Expect(err).NotTo(HaveOccurred())
			clean := map[string]string{}
			for name, text := range read {
				clean[plain(name)] = plain(text)
			}
			return clean
		}
		members := func(reply rueidis.RedisResult) []string {
			GinkgoHelper()
			read, err := reply.AsStrSlice()
			Expect(err).NotTo(HaveOccurred())
			for i := range read {
				read[i] = plain(read[i])
			}
			slices.Sort(read)
			return read
		}
		found := map[string]familyEnd{}
		for i, key := range keys {
			reply := replies[5*i : 5*i+5]
			job := fields(reply[0])
			end := familyEnd{
				State: states[i], Reason: job["failedReason"], Values: map[string]any{}, Ignored: fields(reply[2]),
				Pending: members(reply[3]), Failed: members(reply[4]),
			}
			if text, there := job["returnvalue"]; there {
				end.Value = value(text)
			}
			for child, text := range fields(reply[1]) {
				end.Values[child] = value(text)
			}
			found[plain(key)] = end
		}
		return found
	}

	BeforeAll(func() {
		all = families(count)
		for _, prefix := range []string{"alone", "sandwich"} {
			var asNode []object
			for _, flow := range all {
				asNode = append(asNode, inNode(flow, prefix))
			}
			node.Do("addFlowBulk", object{"flows": asNode}, nil)
		}
		work("alone", "Node", "Node", "Node")
		alone = ends("alone")
	})

	It("end in every possible way under Node only", func() {
		Expect(len(alone)).To(BeNumerically(">", 6*count), "only a few members are removed")
		ways := map[string]int{}
		for member, end := range alone {
			if member, root := strings.CutPrefix(member, "bull:roots:"); root {
				policy, _, _ := strings.Cut(member, "-")
				ways[policy+" "+end.State]++
			}
		}
		Expect(ways).To(And(
			HaveKey("none waiting-children"), HaveKey("none completed"), HaveKey("fail failed"), HaveKey("fail completed"),
			Not(HaveKey("continue failed")), Not(HaveKey("ignore failed")), Not(HaveKey("remove failed")), Not(HaveKey("gone failed")),
			HaveKey("gone completed"), HaveLen(8),
		), "%v", ways)
	})

	DescribeTable("end the same when both libraries process them:", func(prefix string, byGo bool, libraries ...string) {
		if byGo {
			producer, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{URL: server.URL(), Prefix: prefix})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(producer.Close)
			_, err = producer.AddBulk(soon(), all)
			Expect(err).NotTo(HaveOccurred())
		}
		work(prefix, libraries...)
		shared := ends(prefix)
		Expect(shared).To(HaveLen(len(alone)))
		different := 0
		for member, end := range alone {
			if !reflect.DeepEqual(end, shared[member]) {
				if different++; different <= 3 {
					AddReportEntry(member, fmt.Sprintf("Node only: %+v\nshared:    %+v", end, shared[member]))
				}
			}
		}
		Expect(different).To(BeZero(), strconv.Itoa(different)+" members ended differently")
	},
		Entry("added by Node, whose children run in Node and whose roots and grandchildren run in Go", "sandwich", false, "Go", "Node", "Go"),
		Entry("added by Go, whose children run in Go and whose roots and grandchildren run in Node", "filling", true, "Node", "Go", "Node"),
	)
})
