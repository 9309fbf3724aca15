package backendtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) registry() {
	ginkgo.Describe("A registry of queues", func() {
		var registry backend.Registry
		ginkgo.BeforeEach(func() {
			if s.Registry == nil {
				ginkgo.Skip("the backend has no registry of queues")
			}
			registry = s.Registry(s.Name)
		})

		// listener listens to the registry over a wait of its own.
		type listener struct {
			id     string
			waiter backend.GroupWaiter
			since  time.Time
		}
		listen := func(l *listener, wake backend.GroupWake) backend.Listened {
			ginkgo.GinkgoHelper()
			heard, err := registry.Listen(s.ctx, backend.Listen{Listener: l.id, Lease: time.Minute, Since: l.since, Wake: wake})
			Expect(err).NotTo(HaveOccurred())
			l.since = heard.At
			return heard
		}
		newListener := func(id string) *listener {
			ginkgo.GinkgoHelper()
			l := &listener{id: id, waiter: s.GroupWaiter()}
			ginkgo.DeferCleanup(l.waiter.Close)
			Expect(listen(l, backend.GroupWake{}).All).To(BeTrue())
			return l
		}
		wait := func(l *listener, atMost time.Duration) backend.GroupWake {
			ginkgo.GinkgoHelper()
			l.waiter.Begin()
			defer l.waiter.End()
			wake := l.waiter.Wait(atMost, registry.WakeKeys(l.id))
			Expect(wake.Err).NotTo(HaveOccurred())
			return wake
		}
		quiet := func(l *listener) {
			ginkgo.GinkgoHelper()
			Expect(wait(l, 20*time.Millisecond).Woken).To(BeFalse())
		}

		ginkgo.It("lists each queue once, until it is removed", func() {
			Expect(registry.Queues(s.ctx)).To(BeEmpty())
			Expect(registry.Register(s.ctx, []string{"b", "a"})).To(Succeed())
			Expect(registry.Register(s.ctx, []string{"a", "c"})).To(Succeed())
			Expect(registry.Queues(s.ctx)).To(Equal([]string{"a", "b", "c"}))
			Expect(registry.Unregister(s.ctx, []string{"b", "unknown"})).To(Succeed())
			Expect(registry.Queues(s.ctx)).To(Equal([]string{"a", "c"}))
			Expect(s.Registry("other-" + s.Name).Queues(s.ctx)).To(BeEmpty())
		})

		ginkgo.It("can have thousands of queues", func() {
			var names []string
			for n := range 2500 {
				names = append(names, fmt.Sprintf("tenant-%04d", n))
			}
			Expect(registry.Register(s.ctx, names)).To(Succeed())
			Expect(registry.Queues(s.ctx)).To(Equal(names))
			heard := listen(&listener{id: "l"}, backend.GroupWake{}).Names
			slices.Sort(heard)
			Expect(heard).To(Equal(names))
			Expect(registry.Unregister(s.ctx, names[:2000])).To(Succeed())
			Expect(registry.Queues(s.ctx)).To(Equal(names[2000:]))
		})

		ginkgo.It("tells each listener of queues that are new, once", func() {
			s.requires(Waiters)
			Expect(registry.Register(s.ctx, []string{"old"})).To(Succeed())
			time.Sleep(2 * time.Millisecond)
			one, two := newListener("one"), newListener("two")
			quiet(one)
			Expect(registry.Register(s.ctx, []string{"a", "b"})).To(Succeed())
			Expect(registry.Register(s.ctx, []string{"c", "a"})).To(Succeed())
			for _, l := range []*listener{one, two} {
				heard := listen(l, wait(l, time.Minute))
				Expect(heard.All).To(BeFalse())
				Expect(heard.Names).To(ConsistOf("a", "b", "c"))
				quiet(l)
			}
			Expect(registry.Register(s.ctx, []string{"a", "old"})).To(Succeed())
			quiet(one)
		})

		ginkgo.It("gives all queues to each listener after one was removed", func() {
			s.requires(Waiters)
			Expect(registry.Register(s.ctx, []string{"a", "b"})).To(Succeed())
			one, two := newListener("one"), newListener("two")
			Expect(registry.Unregister(s.ctx, []string{"unknown"})).To(Succeed())
			quiet(one)
			Expect(registry.Unregister(s.ctx, []string{"b"})).To(Succeed())
			Expect(registry.Register(s.ctx, []string{"c"})).To(Succeed())
			for _, l := range []*listener{one, two} {
				heard := listen(l, wait(l, time.Minute))
				Expect(heard.All).To(BeTrue())
				Expect(heard.Names).To(ConsistOf("a", "c"))
				quiet(l)
			}
		})

		ginkgo.It("tells no listener whose lease is over, or that has stopped", func() {
			s.requires(Waiters)
			stopped, late := newListener("stopped"), newListener("late")
			Expect(registry.StopListening(s.ctx, stopped.id)).To(Succeed())
			_, err := registry.Listen(s.ctx, backend.Listen{Listener: late.id, Lease: 10 * time.Millisecond, Since: late.since})
			Expect(err).NotTo(HaveOccurred())
			time.Sleep(30 * time.Millisecond)
			Expect(registry.Register(s.ctx, []string{"a"})).To(Succeed())
			quiet(stopped)
			quiet(late)
			heard := listen(late, backend.GroupWake{})
			Expect(heard.Names).To(ContainElement("a"), "it has missed nothing when it listens again")
		})

		ginkgo.It("removes queues that have vanished, once in an interval, but none that was registered lately", func() {
			queues := s.members(2)
			name := func(q member) string { return q.key[len(s.Prefix)+1 : len(q.key)-1] }
			s.fill(queues[0], plain("a"))
			Expect(registry.Register(s.ctx, []string{name(queues[0]), name(queues[1]), "gone"})).To(Succeed())
			time.Sleep(5 * time.Millisecond)
			Expect(registry.RemoveVanished(s.ctx, time.Millisecond, time.Hour)).To(BeEmpty())
			s.Elapse(5 * time.Millisecond)
			Expect(registry.RemoveVanished(s.ctx, time.Hour, 0)).To(ConsistOf(name(queues[1]), "gone"))
			Expect(registry.Queues(s.ctx)).To(Equal([]string{name(queues[0])}))
			Expect(registry.Register(s.ctx, []string{"gone"})).To(Succeed())
			time.Sleep(5 * time.Millisecond)
			Expect(registry.RemoveVanished(s.ctx, time.Hour, 0)).To(BeEmpty(), "another call has removed some in this interval")
		})
	})
}
