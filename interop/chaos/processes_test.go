package chaos

import (
	"context"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Workers that end while they work", func() {
	// replace ends a worker by chance and starts another of its side.
	replace := func(t *trial, ctx context.Context, end func(*Member)) {
		GinkgoHelper()
		m := t.fleet.Any(Side(rand.IntN(2)))
		t.fleet.Remove(m, end)
		_, err := t.fleet.Start(ctx, m.Side)
		Expect(err).NotTo(HaveOccurred())
	}
	times := func(short, long int) int {
		if *full {
			return long
		}
		return short
	}

	It("by kill -9 leave their jobs to others", func() {
		t := begin("workers are killed (SIGKILL), one after the other", at(startServer()), light(time.Second))
		ctx := within(time.Minute)
		for range times(2, 12) {
			replace(t, ctx, func(m *Member) { m.Kill() })
		}
		t.over()
		t.settle(terms{reruns: true})
	})

	It("by SIGTERM finish theirs", func() {
		onlyInFull()
		t := begin("workers are stopped (SIGTERM), one after the other", at(startServer()), light(10*time.Second))
		ctx := within(time.Minute)
		for range 12 {
			replace(t, ctx, func(m *Member) { Expect(m.Stop()).To(Equal(0), m.Stderr()) })
		}
		t.over()
		account := t.settle(terms{})
		Expect(account.Stalls).To(BeZero())
	})

	It("or stop in their tracks for longer than their locks, and go on, do no harm", func() {
		onlyInFull()
		t := begin("workers are frozen (SIGSTOP) for 3 s, the locks last 1 s", at(startServer()), light(time.Second))
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
		t.over()
		t.settle(terms{reruns: true})
	})
})
