package bullmq_test

import (
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	steadyRuns = 4                     // how often steadily runs a body at most
	smallStall = 20 * time.Millisecond // a machine that is not busy holds nothing up for longer
)

// steadily runs the body of a spec whose time limits are what it tests. A busy machine may hold up this process or Redis for
// longer than they allow. If an expectation of g fails and something was held up meanwhile, the body runs again. Without a
// stall the failure is final, so that a fault is not taken for a busy machine, and a fault that remains fails each run.
//
// The body prepares all that it needs, since an earlier run may have left anything. It uses g in its own goroutine only.
func steadily(body func(g Gomega)) {
	GinkgoHelper()
	for run := 1; ; run++ {
		failure, stall := observed(body)
		if failure == "" {
			return
		}
		if stall < smallStall || run == steadyRuns {
			Fail(fmt.Sprintf("run %d, in which nothing was held up for longer than %v:\n%s", run, stall, failure))
		}
		GinkgoWriter.Printf("run %d, in which something was held up for %v:\n%s\n", run, stall, failure)
	}
}

// observed runs a body. It returns its first failure and for how long something was held up.
func observed(body func(g Gomega)) (failure string, stall time.Duration) {
	type failed struct{}
	longest := watchStalls()
	defer func() {
		stall = longest()
		if panicked := recover(); panicked != nil && panicked != any(failed{}) {
			panic(panicked)
		}
	}()
	body(NewGomega(func(message string, _ ...int) {
		failure = message
		panic(failed{})
	}))
	return "", 0
}

// watchStalls measures for how long this process or the suite's server is held up, until longest is called, which returns
// the longest time.
func watchStalls() (longest func() time.Duration) {
	const step = 5 * time.Millisecond
	var most time.Duration
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				return
			case <-time.After(step):
			}
			redisDo("PING")
			most = max(most, time.Since(last)-step)
		}
	}()
	return sync.OnceValue(func() time.Duration {
		close(stop)
		<-stopped
		return most
	})
}
