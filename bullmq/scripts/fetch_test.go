package scripts

import (
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var _ = ginkgo.Describe("A fetch that follows a blocking wait", func() {
	var f *fixture
	worker := backend.Worker{LockDuration: 30 * time.Second}
	ginkgo.BeforeEach(func() {
		f = newFixture(client)
		Expect(f.add(backend.Add{State: backend.Waiting, Name: "a", Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(1)})).To(Equal(backend.AddResult{JobID: "1"}))
	})
	ginkgo.It("uses the caller's clock, which may differ from the server's", func() {
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			there := time.Now().Add(ahead)
			taken, err := f.wake(ahead.Microseconds(), there.Add(time.Minute), worker)
			Expect(err).NotTo(HaveOccurred())
			Expect(idOf(taken)).To(Equal("1"))
			Expect(taken.Job.ProcessedOn).To(BeTemporally("~", there, time.Second))
			_, err = f.MoveToWait(f.ctx, "1", "t")
			Expect(err).NotTo(HaveOccurred())
		}
	})

	ginkgo.It("writes and returns the same as an ordinary fetch", func() {
		limited := backend.Worker{LockDuration: 30 * time.Second, Name: "blue", Limit: backend.RateLimit{Max: 1, Duration: 30 * time.Second}}
		take := map[bool]func(f *fixture, w backend.Worker) (backend.Fetched, error){
			false: func(f *fixture, w backend.Worker) (backend.Fetched, error) { return f.take(time.Now(), w) },
			true: func(f *fixture, w backend.Worker) (backend.Fetched, error) {
				return f.wake(0, time.Now().Add(time.Minute), w)
			},
		}
		for _, dialect := range []Dialect{V6, V5} {
			left, answers := map[bool]map[string]string{}, map[bool][]string{}
			for woken, take := range take {
				f := newFixture(client)
				f.Dialect = dialect
				for _, add := range []backend.Add{
					{State: backend.Delayed, Name: "due", Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(1), Delay: 5 * time.Millisecond},
					{State: backend.Delayed, Name: "ranked", Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(1), Delay: 5 * time.Millisecond, Priority: 2},
					{State: backend.Delayed, Name: "far", Data: "{}", Opts: "{}", Timestamp: time.UnixMilli(4000000000000), Delay: 5 * time.Millisecond},
				} {
					_, err := f.add(add)
					Expect(err).NotTo(HaveOccurred())
				}
				for _, w := range []backend.Worker{worker, limited, limited, worker} { // the third reaches the limit, the fourth finds only a delayed job
					taken, err := take(f, w)
					Expect(err).NotTo(HaveOccurred())
					answer := "no job"
					if taken.Job != nil {
						answer = fmt.Sprintf("job %s started %d times by %q", taken.Job.ID, taken.Job.AttemptsStarted, taken.Job.ProcessedBy)
					}
					if taken.LimitedFor > 29*time.Second {
						answer += ", limited"
					}
					if !taken.NextDue.IsZero() {
						answer += fmt.Sprint(", next at ", taken.NextDue.UnixMilli())
					}
					answers[woken] = append(answers[woken], answer)
				}
				for _, id := range []string{"1", "2"} {
					f.set("HDEL", id, "processedOn") // the only field that depends on the time
				}
				left[woken] = f.state()
				left[woken]["events"] = f.told()
			}
			Expect(answers[false]).To(Equal([]string{
				`job 1 started 1 times by ""`, `job 2 started 1 times by "blue"`, "no job, limited", "no job, next at 4000000000005",
			}))
			Expect(answers[true]).To(Equal(answers[false]))
			Expect(left[true]).To(Equal(left[false]))
		}
	})

	ginkgo.It("returns no job and writes nothing if the wait timed out", func() {
		before := f.state()
		taken, err := f.wake(0, time.Now().Add(-time.Millisecond), worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken).To(Equal(backend.Fetched{Unknown: true}))
		Expect(f.state()).To(Equal(before))
	})

	ginkgo.It("returns no job if TIME is forbidden, and an ordinary fetch returns no server time", func() {
		Expect(f.do("ACL", "SETUSER", "timeless", "on", "nopass", "~*", "+@all", "-time").Error()).To(Succeed())
		timeless, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Username: "timeless", Password: "x", DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		ginkgo.DeferCleanup(timeless.Close)
		there := &fixture{NewStore(timeless, f.base, f.keyOf), f.ctx}
		taken, err := there.wake(0, time.Now().Add(time.Minute), worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken).To(Equal(backend.Fetched{Unknown: true}))

		taken, err = there.take(now, worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(idOf(taken)).To(Equal("1"))
		taken, err = there.take(now, worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken).To(Equal(backend.Fetched{}))
		Expect(there.ServerClock().Known).To(BeFalse())
		_, err = f.take(now, worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.ServerClock().Known).To(BeTrue())
		Expect(f.ServerClock().Ahead).To(BeNumerically("~", 0, time.Second))
	})
})

var _ = ginkgo.Describe("A fetch of many jobs", func() {
	ginkgo.It("returns each job with its own hash, whatever it shares with the previous one", func() {
		f := newFixture(client)
		hashes := [][]string{ // of waiting jobs, the first to run first
			{"name", "a", "data", "1", "opts", "{}", "timestamp", "11", "delay", "0", "priority", "0"},
			{"name", "a", "data", "2", "opts", "{}", "timestamp", "12", "delay", "0", "priority", "0"},
			{"name", "", "data", "", "opts", "{}", "timestamp", "13", "delay", "0", "priority", "0"},
			{"name", "", "data", "4", "opts", "", "timestamp", "", "delay", "0", "priority", "0"},
			{"name", "b", "data", "5", "opts", "[]", "timestamp", "15", "delay", "7", "priority", "0"},
			{"name", "", "data", "6", "opts", "[]", "timestamp", "16", "delay", "0", "priority", "0"},
			{"name", "b", "data", "7", "opts", "[]", "timestamp", "17", "delay", "0", "priority", "3"},
			{"name", "b", "data", "8", "opts", "[]", "timestamp", "18", "delay", "0", "priority", "0", "ats", "4"},
			{"name", "b", "data", "9", "opts", "[]", "timestamp", "19", "delay", "0", "atm", "0"},
			{"name", "c", "data", "10", "opts", "[]", "timestamp", "20", "delay", "0", "priority", "0"},
			{}, // without a hash
			{"name", "c", "data", "12", "opts", "[]", "timestamp", "22", "delay", "0", "priority", "0"},
		}
		var tokens []string
		for i, hash := range hashes {
			id := fmt.Sprint("j", i)
			if len(hash) > 0 {
				f.set("HSET", id, hash...)
			}
			f.set("LPUSH", "wait", id)
			if i == 5 {
				f.set("LPUSH", "wait", "0:17") // no job
			}
			tokens = append(tokens, fmt.Sprint("t", i))
		}
		each, err := f.MoveToActive(f.ctx, now, backend.Worker{LockDuration: 30 * time.Second}, append(tokens, "spare")...)
		Expect(err).NotTo(HaveOccurred())
		for i, hash := range hashes {
			starts := "1"
			if i == 7 {
				starts = "5"
			}
			id := fmt.Sprint("j", i)
			Expect(each[i].Job).To(Equal(Record(id, append(hash, "processedOn", fmt.Sprint(nowMs), "ats", starts))), id)
			Expect(each[i].Hint == onlyBaseFields).To(Equal(len(hash) == 12 && hash[10] == "priority"), id)
			Expect(f.do("GET", f.base+id+":lock").ToString()).To(Equal(tokens[i]))
		}
		Expect(each[len(hashes)].Job).To(BeNil())
		Expect(f.do("LLEN", f.base+"wait").AsInt64()).To(BeZero())
		Expect(f.do("LLEN", f.base+"active").AsInt64()).To(BeEquivalentTo(len(hashes)))
	})
})
