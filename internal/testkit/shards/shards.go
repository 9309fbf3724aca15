// Package shards runs the specs of a suite in several processes at once. Specs mostly wait.
// So several processes take a fraction of the time, even on one processor.
//
// The variable SPEC_PROCESSES gives the number of processes. Without it a suite runs in
// one process, as usual:
//
//	SPEC_PROCESSES=3 go test ./bullmq
//
// With SPEC_ATTEMPTS=2, these processes run a failed spec a second time. If the spec then
// passes, the report counts it as flaked.
package shards

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
	attemptsVariable  = "SPEC_ATTEMPTS"  // how often a process runs a spec that fails
	shardVariable     = "SPEC_SHARD"     // of one process, as "2/3" for the second of three
)

// Run runs the specs as [ginkgo.RunSpecs] does, to which it passes the arguments. If
// SPEC_PROCESSES is set, Run instead starts the test's program that many times at once. Each
// process runs its own part of the specs, with its own BeforeSuite. A suite must also have a
// node BeforeEach(shards.Select).
func Run(t *testing.T, title string, arguments ...any) {
	var processes int
	_, _ = fmt.Sscan(os.Getenv(processesVariable), &processes)
	if processes < 2 || os.Getenv(shardVariable) != "" {
		ginkgo.RunSpecs(t, title, arguments...)
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

// gracePeriod is the time that a spec gets to end after the suite's time is over.
const gracePeriod = 5 * time.Second

// runShard runs the program for one part of the specs and returns its output. A spec that runs for long is named there,
// with the line it waits at. Shortly before the deadline of ctx the specs end with a report. If they do not, the program
// prints its goroutines and exits when ctx ends.
func runShard(ctx context.Context, program, shard string) ([]byte, error) {
	var output bytes.Buffer
	arguments := append(flags(os.Args[1:]), "-ginkgo.poll-progress-after=90s")
	if deadline, ok := ctx.Deadline(); ok { // the report names the spec that runs then
		limit := time.Until(deadline) - 3*gracePeriod
		arguments = append(arguments, fmt.Sprint("-ginkgo.timeout=", limit), fmt.Sprint("-ginkgo.grace-period=", gracePeriod))
	}
	if attempts := os.Getenv(attemptsVariable); attempts != "" {
		arguments = append(arguments, "-ginkgo.flake-attempts="+attempts)
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
