package tests

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess/childprocess"
)

// moverVariable makes the test binary run a Go worker with DeadLetters that fails all jobs. Its arguments are the
// address of Redis, the queue and the queue for dead letters. It writes the id of each letter that it has moved.
const moverVariable = "INTEROP_MOVER"

func moveUntilKilled() {
	worker, err := bullmq.NewWorker(context.Background(), os.Args[2], func(context.Context, *bullmq.Job) (any, error) {
		return nil, errorText("failed by a mover")
	}, &bullmq.WorkerOptions{
		URL: os.Args[1], Concurrency: 5,
		DeadLetters: &bullmq.DeadLetterOptions{
			QueueName: os.Args[3], Interval: 10 * time.Millisecond,
			OnMoved: func(_ context.Context, letter bullmq.DeadLetter) { fmt.Println(letter.Letter.ID) },
		},
	})
	if err == nil {
		err = worker.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startMover starts a process with a worker that moves failed jobs, and passes the ids of the letters to alert.
func startMover(queue, dead string, alert func(id string)) {
	GinkgoHelper()
	command := exec.Command(os.Args[0], server.URL(), queue, dead)
	command.Env = append(os.Environ(), moverVariable+"=1")
	out, theirOut, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	command.Stdout, command.Stderr = theirOut, os.Stderr
	child, err := childprocess.Start(command)
	Expect(err).NotTo(HaveOccurred())
	Expect(theirOut.Close()).To(Succeed())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			alert(lines.Text())
		}
	}()
	DeferCleanup(func() {
		child.Kill()
		<-read
		Expect(out.Close()).To(Succeed())
	})
}

var _ = Describe("Dead letters of queues that are shared with Node", func() {
	It("are moved once and reported once by two processes, whether Go or Node failed the jobs", func() {
		const count = 50
		name := newQueueName()
		queue, dead := newGoQueue(name), newGoQueue(name+".dead")
		var mu sync.Mutex
		var alerts []string
		alert := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			alerts = append(alerts, id)
		}
		for range 2 {
			startMover(name, dead.Name(), alert)
		}
		startNode("worker.mjs", "-queue", name, "-concurrency", "5", "-fail-every", "1")
		_, err := queue.AddBulk(soon(), slices.Repeat([]bullmq.BulkJob{{Name: "a"}}, count))
		Expect(err).NotTo(HaveOccurred())
		reported := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(slices.Values(alerts))
		}
		Eventually(reported).Should(HaveLen(count))
		Consistently(reported).WithTimeout(300 * time.Millisecond).Should(HaveLen(count))
		letters, err := dead.JobIDs(soon(), bullmq.AllEntries(), bullmq.StateWaiting)
		Expect(err).NotTo(HaveOccurred())
		Expect(reported()).To(Equal(slices.Sorted(slices.Values(letters))))
		Expect(queue.JobIDs(soon(), bullmq.AllEntries())).To(BeEmpty())
	})

	It("are moved once by two Go workers over many queues, and counted by queue and reason", func() {
		const count = 5
		names := []string{newQueueName(), newQueueName(), newQueueName()}
		dead := newGoQueue(names[0] + ".dead")
		for _, name := range names {
			id := ""
			for range count {
				id = node.Add(name, "mail", object{}, object{})
			}
			node.Run(name, count, object{"throw": "not in Node"}, object{"name": "noddy"})(nil)
			Expect(stateOf(newGoQueue(name), id)()).To(Equal(bullmq.StateFailed))
		}
		var served []bullmq.ServedQueue
		for _, name := range names {
			served = append(served, bullmq.ServedQueue{Name: name})
		}
		alerts := make(chan string, 100)
		for range 2 {
			worker, err := bullmq.NewMultiWorker(context.Background(), func(context.Context, *bullmq.Job) (any, error) { return nil, nil },
				&bullmq.MultiWorkerOptions{Queues: served, Worker: bullmq.WorkerOptions{URL: server.URL(), DeadLetters: &bullmq.DeadLetterOptions{
					QueueName: dead.Name(), Interval: 20 * time.Millisecond,
					OnMoved: func(_ context.Context, letter bullmq.DeadLetter) { alerts <- letter.Letter.ID },
				}}})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(worker.Close)
			go func() { _ = worker.Run(context.Background()) }()
		}
		Eventually(alerts).Should(HaveLen(count * len(names)))
		Consistently(alerts).WithTimeout(300 * time.Millisecond).Should(HaveLen(count * len(names)))
		counts, err := dead.DeadLetterCounts(soon())
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(Equal(bullmq.DeadLetterCounts{
			Total:   count * len(names),
			Queues:  map[string]int{names[0]: count, names[1]: count, names[2]: count},
			Reasons: map[string]int{"not in Node": count * len(names)},
		}))
		Expect(node.Record(dead.Name(), names[1]+"-1")).To(And(HaveKeyWithValue("state", "waiting"), HaveKeyWithValue("failedReason", "not in Node")))
	})

	for _, line := range []string{"6", "5"} {
		Describe("of bullmq "+line, func() {
			var other *probe
			var name string
			var queue, dead *bullmq.Queue
			BeforeEach(func() {
				other = node
				if line == "5" {
					other = startProbe("-bullmq", "5")
				}
				name = newQueueName()
				other.Do("openQueue", object{"queue": name}, nil)
				other.Do("openQueue", object{"queue": name + ".dead"}, nil)
				queue, dead = newGoQueue(name), newGoQueue(name+".dead")
			})
			// bury fails a job of Node in Node and moves it.
			bury := func(opts object) (id, letterID string) {
				GinkgoHelper()
				id = other.Add(name, "mail", object{"to": "a/b"}, opts)
				other.Run(name, 1, object{"throw": "not in Node"}, object{"name": "noddy"})(nil)
				letters, err := queue.MoveFailed(soon(), dead.Name(), nil)
				Expect(err).NotTo(HaveOccurred())
				Expect(letters).To(HaveLen(1))
				return id, letters[0]
			}

			It("are read by Node, and replayed as the jobs that they were", func() {
				id, letterID := bury(object{"priority": 3, "jobId": "a", "removeOnComplete": true})
				record := other.Record(dead.Name(), letterID)
				was, err := dead.DeadLetter(soon(), name, id)
				Expect(err).NotTo(HaveOccurred())
				Expect(was.Letter.ID).To(Equal(letterID))
				Expect(record).To(And(
					HaveKeyWithValue("state", "waiting"), HaveKeyWithValue("name", "mail"), HaveKeyWithValue("data", object{"to": "a/b"}),
					HaveKeyWithValue("failedReason", "not in Node"), HaveKeyWithValue("stacktrace", HaveExactElements(ContainSubstring("not in Node"))),
					HaveKeyWithValue("opts", object{"attempts": 0., "deadLetter": object{
						"queue": "bull:" + name, "id": id, "reason": "not in Node", "attemptsMade": 1., "failedAt": float64(was.FailedAt.UnixMilli()),
					}}),
				))
				other.Do("updateData", object{"queue": dead.Name(), "id": letterID, "data": object{"to": "c"}}, nil)
				job, err := dead.ReplayDeadLetter(soon(), letterID)
				Expect(err).NotTo(HaveOccurred())
				Expect(job.ID).To(Equal("a"))
				Expect(other.Record(name, "a")).To(And(
					HaveKeyWithValue("state", "prioritized"), HaveKeyWithValue("data", object{"to": "c"}), HaveKeyWithValue("attemptsMade", 0.),
					HaveKeyWithValue("opts", HaveKeyWithValue("removeOnComplete", true)),
				))
				other.Run(name, 1, object{"return": "done"}, object{"name": "noddy"})(nil)
				_, err = job.State(soon())
				Expect(err).To(MatchError(bullmq.ErrJobNotFound)) // removeOnComplete
			})

			It("are processed by a worker in Node, and replayed after that", func() {
				id, letterID := bury(object{"attempts": 1})
				other.Run(dead.Name(), 1, object{"return": "seen"}, object{"name": "noddy"})(nil)
				Expect(stateOf(dead, letterID)()).To(Equal(bullmq.StateCompleted))
				_, err := dead.ReplayDeadLetter(soon(), letterID)
				Expect(err).NotTo(HaveOccurred())
				Expect(stateOf(queue, id)()).To(Equal(bullmq.StateWaiting))
				other.Run(name, 1, object{"return": "done"}, object{"name": "noddy"})(nil)
				Expect(stateOf(queue, id)()).To(Equal(bullmq.StateCompleted))
			})

			It("leave the parent in Node waiting until the replayed child completes", func() {
				var tree struct{ ID string }
				other.Do("addFlow", object{"flow": object{"name": "parent", "queueName": name, "children": []object{{"name": "child", "queueName": name}}}}, &tree)
				other.Run(name, 1, object{"throw": "not in Node"}, object{"name": "noddy"})(nil)
				letters, err := queue.MoveFailed(soon(), dead.Name(), nil)
				Expect(err).NotTo(HaveOccurred())
				Expect(letters).To(HaveLen(1))
				Expect(stateOf(queue, tree.ID)()).To(Equal(bullmq.StateWaitingChildren))
				_, err = dead.ReplayDeadLetter(soon(), letters[0])
				Expect(err).NotTo(HaveOccurred())
				other.Run(name, 2, object{"return": "done"}, object{"name": "noddy"})(nil)
				Expect(stateOf(queue, tree.ID)()).To(Equal(bullmq.StateCompleted))
			})

			It("are no orphans for Node, and nothing is left of them when Node removes them or obliterates their queue", func() {
				for range 3 {
					_, letterID := bury(object{})
					_, err := dead.AddJobLog(soon(), letterID, "row", nil)
					Expect(err).NotTo(HaveOccurred())
				}
				for _, queue := range []string{name, dead.Name()} {
					var orphans int
					other.Do("removeOrphanedJobs", object{"queue": queue}, &orphans)
					Expect(orphans).To(BeZero())
				}
				letters, err := dead.JobIDs(soon(), bullmq.AllEntries(), bullmq.StateWaiting)
				Expect(err).NotTo(HaveOccurred())
				Expect(letters).To(HaveLen(3))
				other.Do("remove", object{"queue": dead.Name(), "id": letters[0]}, nil)
				time.Sleep(2 * time.Millisecond) // clean compares milliseconds
				var cleaned []string
				other.Do("clean", object{"queue": dead.Name(), "grace": 0, "limit": 1, "type": "wait"}, &cleaned)
				Expect(cleaned).To(HaveLen(1))
				for _, queue := range []string{name, dead.Name()} {
					other.Do("obliterate", object{"queue": queue, "force": false}, nil)
				}
				keys, err := ask("KEYS", "bull:"+name+"*").AsStrSlice()
				Expect(err).NotTo(HaveOccurred())
				Expect(slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":meta") })).To(BeEmpty())
			})
		})
	}
})
