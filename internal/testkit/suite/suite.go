// Package suite runs the specs of a suite, in several processes at once if it is asked to.
// Specs mostly wait. So several processes take a fraction of the time, even on one processor.
//
// The variable SPEC_PROCESSES gives the number of processes for the suites that use [Run].
// Without it a suite runs in one process, as usual:
//
//	SPEC_PROCESSES=3 go test ./bullmq
//
// With SPEC_ATTEMPTS=2, a suite runs a failed spec a second time. If the spec then passes, the
// report counts it as flaked.
package suite

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
)

const (
	processesVariable = "SPEC_PROCESSES" // number of processes
	attemptsVariable  = "SPEC_ATTEMPTS"  // how often a spec that fails is run
	shardVariable     = "SPEC_SHARD"     // of one process, as "2/3" for the second of three
)

// RunWhole runs the specs in this process, as [ginkgo.RunSpecs] does, with SPEC_ATTEMPTS. It is
// for suites that are small, or whose preparation takes long. With the flag -short, specs with
// the label slow are left out.
func RunWhole(t *testing.T, title string) {
	configuration, reporter := ginkgo.GinkgoConfiguration()
	if testing.Short() {
		configuration.LabelFilter = "!slow"
	}
	if n := attempts(); n > 1 { // 1 would overrule a spec's own FlakeAttempts
		configuration.FlakeAttempts = n
	}
	ginkgo.RunSpecs(t, title, configuration, reporter)
}

// Run runs the specs as [RunWhole] does. If SPEC_PROCESSES is set, Run instead starts the test's
// program that many times at once. Each process runs its own part of the specs, with its own
// BeforeSuite. A suite must also have a node BeforeEach(suite.Select).
func Run(t *testing.T, title string) {
	var processes int
	_, _ = fmt.Sscan(os.Getenv(processesVariable), &processes)
	if processes < 2 || os.Getenv(shardVariable) != "" {
		RunWhole(t, title)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if deadline, ok := t.Deadline(); ok { // before package testing ends this process and the output is lost
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-10*time.Second))
		defer cancel()
	}
	ended := make(chan error)
	for shard := range processes {
		go func() {
			output, err := runShard(ctx, program, fmt.Sprintf("%d/%d", shard+1, processes))
			_, _ = os.Stdout.Write(output)
			ended <- err
		}()
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// attempts returns how often a spec that fails is run.
func attempts() int {
	n := 1
	_, _ = fmt.Sscan(os.Getenv(attemptsVariable), &n)
	return max(n, 1)
}

// gracePeriod is the time that each node of a spec gets to end after the suite's time is over.
const gracePeriod = 3 * time.Second

// runShard runs the program for one part of the specs and returns its output. A spec that runs for long is named there,
// with the line it waits at. Shortly before the deadline of ctx the specs end with a report. If they do not, the program
// prints its goroutines and exits when ctx ends.
func runShard(ctx context.Context, program, shard string) ([]byte, error) {
	var output bytes.Buffer
	arguments := append(flags(os.Args[1:]), "-ginkgo.poll-progress-after=90s")
	if deadline, ok := ctx.Deadline(); ok { // the report names the spec that runs then
		// Ginkgo repeats a spec even after the suite's time is over. Each attempt may take a grace period for the
		// spec and one for its cleanup. The last one is for the report.
		limit := time.Until(deadline) - time.Duration(2*attempts()+1)*gracePeriod
		arguments = append(arguments, fmt.Sprint("-ginkgo.timeout=", limit), fmt.Sprint("-ginkgo.grace-period=", gracePeriod))
	}
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = append(os.Environ(), shardVariable+"="+shard)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("specs of process %s: %w", shard, err)
	}
	return output.Bytes(), err
}

// flags returns the flags, except for those that name a file that each process would write.
func flags(all []string) (kept []string) {
	for _, flag := range all {
		if !strings.HasPrefix(flag, "-test.testlogfile=") && !strings.HasPrefix(flag, "-test.coverprofile=") {
			kept = append(kept, flag)
		}
	}
	return kept
}

// Select skips a spec that another process runs. The choice depends on the title only.
// The specs of an ordered container stay together.
func Select() {
	var shard, processes int
	if n, _ := fmt.Sscanf(os.Getenv(shardVariable), "%d/%d", &shard, &processes); n < 2 {
		return
	}
	if !selected(ginkgo.CurrentSpecReport(), shard, processes) {
		ginkgo.Skip("another process runs it")
	}
}

func selected(spec ginkgo.SpecReport, shard, processes int) bool {
	titles := spec.ContainerHierarchyTexts
	switch {
	case !spec.IsInOrderedContainer:
		titles = append(titles[:len(titles):len(titles)], spec.LeafNodeText)
	case len(titles) > 1:
		titles = titles[:1] // the ordered container may be any of them
	}
	hash := crc32.ChecksumIEEE([]byte(strings.Join(titles, " ")))
	return int(hash%uint32(processes)) == shard-1
}
