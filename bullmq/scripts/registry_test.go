package scripts

import (
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var _ = ginkgo.Describe("A registry of queues in Redis", func() {
	var f *fixture
	var registry *Registry
	var base string
	open := func(client rueidis.Client) {
		f = newFixture(client)
		name := fmt.Sprint("registry-", queues.Add(1))
		registry, base = NewRegistry(client, "bull", name), "bull:"+name+"@x:"
	}
	ginkgo.BeforeEach(func() { open(client) })

	listen := func(listener string, since time.Time, wake backend.GroupWake) backend.Listened {
		ginkgo.GinkgoHelper()
		heard, err := registry.Listen(f.ctx, backend.Listen{Listener: listener, Lease: time.Minute, Since: since, Wake: wake})
		Expect(err).NotTo(HaveOccurred())
		return heard
	}
	announce := func(name string) {
		ginkgo.GinkgoHelper()
		Expect(f.do("ZADD", base+"new", "0", name).Error()).To(Succeed())
	}

	ginkgo.It("keeps names with the time of their last registration, by the server's clock", func() {
		before := time.Now()
		Expect(registry.Register(f.ctx, []string{"a"})).To(Succeed())
		score, err := f.do("ZSCORE", base+"queues", "a").AsFloat64()
		Expect(err).NotTo(HaveOccurred())
		Expect(time.UnixMilli(int64(score))).To(BeTemporally("~", before, time.Minute))
		Expect(f.do("KEYS", base+"*").AsStrSlice()).To(Equal([]string{base + "queues"}))
	})

	for where, connect := range map[string]func() rueidis.Client{"Redis": func() rueidis.Client { return client }, "an in-process Redis": inProcess} {
		ginkgo.It("registers queues that a client without scripts has announced, and tells other listeners, on "+where, func() {
			open(connect())
			one, two := listen("one", time.Time{}, backend.GroupWake{}).At, listen("two", time.Time{}, backend.GroupWake{}).At
			announce("a")
			Expect(registry.Queues(f.ctx)).To(Equal([]string{"a"}))
			Expect(listen("one", one, backend.GroupWake{}).Names).To(Equal([]string{"a"}))
			Expect(f.do("ZRANGE", base+"wake:two", "0", "-1").AsStrSlice()).To(Equal([]string{"new"}))
			Expect(f.do("PTTL", base+"wake:two").AsInt64()).To(BeNumerically("~", 60000, 10000))
			Expect(f.do("EXISTS", base+"new", base+"wake:one").AsInt64()).To(BeZero())
			Expect(listen("two", two, backend.GroupWake{}).Names).To(Equal([]string{"a"}))

			popped := backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: registry.WakeKeys("one")[1], Member: "b"}
			Expect(listen("one", time.Now().Add(-time.Minute), popped).Names).To(ContainElement("b"))
			Expect(f.do("ZRANGE", base+"queues", "0", "-1").AsStrSlice()).To(ConsistOf("a", "b"))
			Expect(f.do("EXISTS", base+"wake:two").AsInt64()).To(BeEquivalentTo(1))
		})
	}

	ginkgo.It("forgets an announced queue that is removed", func() {
		announce("a")
		Expect(registry.Unregister(f.ctx, []string{"a"})).To(Succeed())
		Expect(registry.Queues(f.ctx)).To(BeEmpty())
	})

	ginkgo.It("gives all queues to the listener that has taken the news of a removal itself", func() {
		Expect(registry.Register(f.ctx, []string{"a"})).To(Succeed())
		popped := backend.GroupWake{Wake: backend.Wake{Woken: true}, Marker: registry.WakeKeys("one")[0], Member: "all"}
		heard := listen("one", time.Now().Add(time.Hour), popped)
		Expect(heard.All).To(BeTrue())
		Expect(heard.Names).To(Equal([]string{"a"}))
	})

	ginkgo.It("keeps a queue without keys that was registered again meanwhile", func() {
		Expect(registry.Register(f.ctx, []string{"a", "b"})).To(Succeed())
		before, err := f.do("ZSCORE", base+"queues", "a").AsFloat64()
		Expect(err).NotTo(HaveOccurred())
		Expect(f.do("ZADD", base+"queues", fmt.Sprint(int64(before)-1), "b").Error()).To(Succeed())
		Expect(registry.remove(f.ctx, fmt.Sprint(int64(before)), []string{"a", "b"})).To(Equal([]string{"b"}))
	})

	ginkgo.It("keeps queues of which any key exists", func() {
		for _, key := range [][]string{{"SET", "id", "1"}, {"HSET", "meta", "a", "b"}, {"LPUSH", "wait", "1"}, {"ZADD", "delayed", "1", "1"}, {"ZADD", "repeat", "1", "1"}} {
			open(client)
			f.set(key[0], key[1], key[2:]...)
			name := f.base[len("bull:") : len(f.base)-1]
			Expect(f.do("ZADD", base+"queues", "1", name, "1", "gone").Error()).To(Succeed())
			Expect(registry.RemoveVanished(f.ctx, time.Hour, time.Hour)).To(Equal([]string{"gone"}), key[1])
		}
	})
})
