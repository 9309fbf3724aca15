package bullmq_test

import (
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("What is closed while calls are on their way", func() {
	// The suite's check after each spec counts connections: one that is opened beside the closing is rueidis's to forget.
	It("keeps no connection, and answers those calls", func() {
		name := newQueueName()
		for i := range 60 {
			queue, err := bullmq.NewQueue(name, &bullmq.QueueOptions{Connection: connection()})
			Expect(err).NotTo(HaveOccurred())
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					defer GinkgoRecover()
					for range 3 {
						_, err := queue.Counts(context.Background())
						Expect(err == nil || errors.Is(err, bullmq.ErrClosed)).To(BeTrue(), "%v", err)
					}
				})
			}
			time.Sleep(time.Duration(i%10) * 50 * time.Microsecond) // within the time that opening one takes
			Expect(queue.Close()).To(Succeed())
			calls.Wait()
		}
	})
})
