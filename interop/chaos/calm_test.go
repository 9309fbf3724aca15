package chaos

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/gomega"
)

// outage observes the Go workers while Redis is unavailable.
type outage struct {
	trial *trial
	begun time.Time
	cpu   map[*Member]time.Duration
	lines map[*Member]int
}

func (t *trial) watch() *outage {
	o := &outage{trial: t, begun: time.Now(), cpu: map[*Member]time.Duration{}, lines: map[*Member]int{}}
	for _, m := range t.fleet.Members(Go) {
		o.cpu[m], o.lines[m] = cpuTime(m.Pid()), m.StderrLines()
	}
	return o
}

// expectCalm checks that each Go worker has logged few lines and used little CPU time.
func (o *outage) expectCalm() {
	length := time.Since(o.begun)
	for _, m := range o.trial.fleet.Members(Go) {
		lines, cpu := m.StderrLines()-o.lines[m], cpuTime(m.Pid())-o.cpu[m]
		Expect(lines).To(BeNumerically("<=", 3+int(length.Seconds()/5)), "lines logged by %s within %v: %s", m.Name, length, m.Stderr())
		Expect(cpu).To(BeNumerically("<", length/10+200*time.Millisecond), "CPU time used by %s within %v", m.Name, length)
		report.Note("    %s logged %d lines within %.1f s and used %.1f %% of a CPU", m.Name, lines, length.Seconds(), 100*cpu.Seconds()/length.Seconds())
	}
}

// waitForReports waits until each Go worker has noticed the end of the outage.
func (o *outage) waitForReports() {
	for _, m := range o.trial.fleet.Members(Go) {
		Eventually(m.Health).Should(HaveLen(2), "health reported by %s", m.Name)
	}
}

// expectReported checks that each Go worker and the first queue have reported one outage and its end.
func (o *outage) expectReported() {
	for _, m := range o.trial.fleet.Ever(Go) {
		Expect(m.Health()).To(Equal([]bool{false, true}), "health reported by %s", m.Name)
	}
	Expect(o.trial.queues[0].Ping(soon())).To(Succeed()) // of many queues, the first may have had no call since
	Eventually(o.trial.health).Should(HaveLen(2))
	changes := o.trial.health()
	Expect(changes[0].Reachable).To(BeFalse())
	Expect(changes[0].Err).To(HaveOccurred())
	Expect(changes[0].Since).To(BeTemporally("~", o.begun, 5*time.Second))
	Expect(changes[1].Reachable).To(BeTrue())
	Expect(o.trial.queues[0].Health().Reachable).To(BeTrue())
}

// cpuTime returns the CPU time used by a process, or 0 on systems without /proc.
func cpuTime(pid int) time.Duration {
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // ticks of 1/100 s
}
