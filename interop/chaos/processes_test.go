package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A worker that ends during a job", func() {
	// replace ends a random worker and starts another of the same library.
	replace := func(t *trial, ctx context.Context, end func(*Member)) {
		GinkgoHelper()
		m := t.fleet.Any(Library(rand.IntN(2)))
		t.fleet.Remove(m, end)
		_, err := t.fleet.Start(ctx, m.Library)
		Expect(err).NotTo(HaveOccurred())
	}
	times := func(short, long int) int {
		if *full {
			return long
		}
		return short
	}

	It("by SIGKILL leaves its job to other workers", func() {
		t := begin("workers are killed (SIGKILL), one after the other", at(startServer()), lightLoad(time.Second))
		ctx := within(time.Minute)
		for range times(2, 12) {
			replace(t, ctx, func(m *Member) { m.Kill() })
		}
		t.faultEnded()
		t.settle(tolerance{reruns: true})
	})

	It("by SIGTERM finishes its job first", func() {
		onlyInFull()
		t := begin("workers are stopped (SIGTERM), one after the other", at(startServer()), lightLoad(10*time.Second))
		ctx := within(time.Minute)
		for range 12 {
			replace(t, ctx, func(m *Member) { Expect(m.Stop()).To(Equal(0), m.Stderr()) })
		}
		t.faultEnded()
		account := t.settle(tolerance{})
		Expect(account.Stalls).To(BeZero())
	})

	It("or is frozen for longer than its lock and then resumes does no harm", func() {
		onlyInFull()
		t := begin("workers are frozen (SIGSTOP) for 3 s, with locks of 1 s", at(startServer()), lightLoad(time.Second))
		for range 4 {
			frozen := []*Member{t.fleet.Any(Go), t.fleet.Any(Node)}
			for _, m := range frozen {
				Expect(m.Freeze()).To(Succeed())
			}
			time.Sleep(3 * time.Second)
			for _, m := range frozen {
				Expect(m.Thaw()).To(Succeed())
			}
			time.Sleep(500 * time.Millisecond)
		}
		t.faultEnded()
		t.settle(tolerance{reruns: true})
	})
})
