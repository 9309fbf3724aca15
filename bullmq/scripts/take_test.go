package scripts

import (
	"fmt"
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
)

var _ = ginkgo.Describe("A take behind a wait", func() {
	var f *fixture
	worker := Worker{Token: "t", LockMs: 30000}
	ginkgo.BeforeEach(func() {
		f = newFixture(client)
		Expect(f.Add(f.ctx, Add{Name: "a", Data: "{}", Opts: "{}", Timestamp: "1", Delay: "0", Priority: "0"})).To(Equal("1"))
	})
	field := func(taken Taken, name string) string {
		ginkgo.GinkgoHelper()
		var value string
		for pair := range slices.Chunk(taken.Hash, 2) {
			if pair[0] == name {
				value = pair[1]
			}
		}
		return value
	}

	ginkgo.It("goes by the caller's clock, which may be ahead of the server's or behind", func() {
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			there := time.Now().Add(ahead)
			taken, err := f.wake(ahead.Microseconds(), there.Add(time.Minute).UnixMilli(), worker)
			Expect(err).NotTo(HaveOccurred())
			Expect(taken.JobID).To(Equal("1"))
			var processedOn int64
			Expect(fmt.Sscan(field(taken, "processedOn"), &processedOn)).To(Equal(1))
			Expect(time.UnixMilli(processedOn)).To(BeTemporally("~", there, time.Second))
			_, err = f.ToWait(f.ctx, "1", "t")
			Expect(err).NotTo(HaveOccurred())
		}
	})

	ginkgo.It("takes nothing, and writes nothing, when the wait has ended by itself", func() {
		before := f.state()
		taken, err := f.wake(0, time.Now().Add(-time.Millisecond).UnixMilli(), worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken).To(Equal(Taken{NothingSet: true}))
		Expect(f.state()).To(Equal(before))
	})

	ginkgo.It("takes nothing where TIME is forbidden, and a take says then that it knows no time", func() {
		Expect(f.do("ACL", "SETUSER", "timeless", "on", "nopass", "~*", "+@all", "-time").Error()).To(Succeed())
		timeless, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, Username: "timeless", Password: "x", DisableCache: true})
		Expect(err).NotTo(HaveOccurred())
		ginkgo.DeferCleanup(timeless.Close)
		there := &fixture{NewQueue(timeless, f.base, f.keyOf), f.ctx}
		taken, err := there.wake(0, time.Now().Add(time.Minute).UnixMilli(), worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken).To(Equal(Taken{NothingSet: true}))

		taken, err = there.Take(f.ctx, nowMs, worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken.JobID).To(Equal("1"))
		taken, err = there.Take(f.ctx, nowMs, worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken).To(Equal(Taken{}))
		taken, err = f.Take(f.ctx, nowMs, worker)
		Expect(err).NotTo(HaveOccurred())
		Expect(time.UnixMicro(taken.ServerUs)).To(BeTemporally("~", time.Now(), time.Second))
	})
})
