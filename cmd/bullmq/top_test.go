package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// screen is a terminal on which a program runs.
type screen struct {
	terminal *os.File
	emulator *vt.Emulator
	command  *exec.Cmd
	ended    chan error

	mu  sync.Mutex // of raw and of all calls of emulator but Read
	raw []byte
}

// show runs a program on a terminal of a size.
func show(command *exec.Cmd, columns, lines int, environment ...string) *screen {
	GinkgoHelper()
	command.Env = append(append(slices.DeleteFunc(command.Env, func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") }), "TERM=xterm-256color"), environment...)
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: uint16(lines), Cols: uint16(columns)})
	Expect(err).NotTo(HaveOccurred())
	s := &screen{terminal: terminal, emulator: vt.NewEmulator(columns, lines), command: command, ended: make(chan error, 1)}
	replied := make(chan struct{})
	go func() { defer close(replied); _, _ = io.Copy(terminal, s.emulator) }() // replies of the terminal
	go func() {
		_, _ = io.Copy(s, terminal)
		s.ended <- command.Wait()
	}()
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = terminal.Close()
		_ = s.emulator.InputPipe().(io.Closer).Close() // ends the replies; Close of the emulator races with its Read
		<-replied
	})
	return s
}

func (s *screen) Write(output []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, output...)
	return s.emulator.Write(output)
}

// text returns what the terminal shows.
func (s *screen) text() string {
	s.mu.Lock()
	text := s.emulator.String()
	s.mu.Unlock()
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.TrimRight(line, " \r"))
	}
	return strings.Join(lines, "\n")
}

func (s *screen) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.raw)
}

func (s *screen) press(keys string) {
	GinkgoHelper()
	_, err := s.terminal.WriteString(keys)
	Expect(err).NotTo(HaveOccurred())
}

func (s *screen) resize(columns, lines int) {
	GinkgoHelper()
	s.mu.Lock()
	s.emulator.Resize(columns, lines)
	s.mu.Unlock()
	Expect(pty.Setsize(s.terminal, &pty.Winsize{Rows: uint16(lines), Cols: uint16(columns)})).To(Succeed())
}

// order matches a screen that shows words one below the other.
func order(words ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.Join(words, `.*\n[^\n]*`))
}

var colors = regexp.MustCompile(`\x1b\[(?:\d+;)*(?:7|3\d|4\d|9\d)(?:;\d+)*m`)

var _ = Describe("bullmq top", func() {
	It("shows queues with rates, sorts and filters them, and quits", func() {
		s := open()
		s.add(s.queue("apples"), 3, "pick", nil, nil)
		s.add(s.queue("pears"), 7, "pick", nil, nil)
		s.add(s.queue("plums"), 1, "pick", nil, &bullmq.JobOptions{Delay: time.Hour})
		Expect(s.queue("plums").Pause(ctx)).To(Succeed())
		top := show(s.command("top", "--interval", "200ms"), 130, 20)
		Eventually(top.text).Should(And(MatchRegexp(`bullmq top  3 queues, 10 ready, 0 active`), MatchRegexp(`QUEUE↑ +READY +ACTIVE`),
			MatchRegexp(`\n> apples +3 .* 0  no workers`), MatchRegexp(`\n  plums +0 +0 +1 .* 0  paused`)))
		Expect(colors.MatchString(top.output())).To(BeTrue())
		s.add(s.queue("pears"), 20, "pick", nil, nil)
		Eventually(top.text).Should(MatchRegexp(`pears +27( +\d+){5} +[1-9]\d*\.\d +0\.0 `))
		top.press("s")
		Eventually(top.text).Should(And(ContainSubstring("READY↓"), MatchRegexp(order("pears", "apples", "plums").String())))
		top.press("r")
		Eventually(top.text).Should(And(ContainSubstring("READY↑"), MatchRegexp(order("plums", "apples", "pears").String())))
		top.press("/pe")
		Eventually(top.text).Should(And(ContainSubstring("filter: pe"), Not(ContainSubstring("apples")), MatchRegexp(`> pears`)))
		top.press("\r\x1b")
		Eventually(top.text).Should(ContainSubstring("apples"))

		top.press("p")
		Eventually(top.text).Should(ContainSubstring("refresh is paused"))
		s.add(s.queue("apples"), 100, "pick", nil, nil)
		Consistently(top.text, "1s").Should(MatchRegexp(`apples +3 `))
		top.press("p")
		Eventually(top.text).Should(MatchRegexp(`apples +103 `))
		top.press("?")
		Eventually(top.text).Should(ContainSubstring("of the oldest job that is ready"))
		top.press("q")
		Eventually(top.ended, "10s").Should(Receive(BeNil()))
		Expect(top.output()).To(MatchRegexp(`\x1b\[\?1049h[\s\S]*\x1b\[\?1049l`)) // the former screen is back
	})

	It("shows the workers and the running jobs of a queue", func() {
		s := open()
		end := make(chan struct{})
		worker, err := bullmq.NewWorker(ctx, "apples", func(jobContext context.Context, job *bullmq.Job) (any, error) {
			err := bullmq.UpdateProgress(jobContext, map[string]int{"percent": 30})
			<-end
			return nil, err
		}, &bullmq.WorkerOptions{Connection: s.connection, Name: "picker", Concurrency: 3})
		Expect(err).NotTo(HaveOccurred())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		DeferCleanup(func() { close(end); _ = worker.Close(); <-ended })
		s.add(s.queue("apples"), 1, "pick", nil, nil)
		top := show(s.command("top", "--interval", "200ms"), 120, 20)
		Eventually(top.text).Should(MatchRegexp(`> apples +0 +1 `))
		top.press("\r")
		Eventually(top.text).Should(And(MatchRegexp(`1 worker\n  picker .* process \d+  \d of 3 jobs`), MatchRegexp(`1 running job\n  1 +pick .*attempt 1  picker  \{"percent":30\}`)))
		top.press("\x1b")
		Eventually(top.text).Should(MatchRegexp(`> apples `))
		top.press("\x03")
		Eventually(top.ended, "10s").Should(Receive(BeNil()))
	})

	It("fits narrow and low terminals, and follows changes of their size", func() {
		s := open()
		for _, name := range []string{"a-queue-with-a-very-long-name-that-does-not-fit", "日本語のキュー", "short"} {
			s.add(s.queue(name), 2, "pick", nil, nil)
		}
		top := show(s.command("top", "--interval", "200ms"), 200, 30)
		Eventually(top.text).Should(ContainSubstring("WORKERS"))
		for _, size := range [][2]int{{80, 24}, {60, 10}, {40, 8}, {24, 6}, {10, 3}, {3, 1}, {120, 30}} {
			top.resize(size[0], size[1])
			wide := max(1, min(size[0]-2, 4))
			Eventually(top.text).Should(WithTransform(func(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") },
				And(HaveLen(size[1]), ContainElement(ContainSubstring("enter show"[:wide])))), "%v\n%s", size, top.text())
		}
		Eventually(top.text).Should(And(ContainSubstring("日本語のキュー"), MatchRegexp(`> a-queue-with-a-very-long-name`)))
		Expect(top.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Eventually(top.ended, "10s").Should(Receive(BeNil()))
		Expect(top.output()).To(ContainSubstring("\x1b[?1049l")) // the former screen is back
	})

	It("uses no color if NO_COLOR is set", func() {
		s := open()
		s.add(s.queue("apples"), 2, "pick", nil, nil)
		top := show(s.command("top", "--interval", "200ms"), 100, 10, "NO_COLOR=1")
		Eventually(top.text).Should(MatchRegexp(`> apples +2 `))
		top.press("\r")
		Eventually(top.text).Should(ContainSubstring("queue apples"))
		Expect(colors.FindString(top.output())).To(BeEmpty())
		top.press("q")
		Eventually(top.ended, "10s").Should(Receive(BeNil()))
	})

	It("lets no name, job or worker control the terminal", func() {
		s := open()
		evil := "evil\x1b]0;owned\x07\x1b[2J\u009b31m\u202e"
		queue := s.queue(evil)
		s.block(evil, bullmq.WorkerOptions{Name: "w"})
		s.add(queue, 1, "\x1b[41mjob\r\n", nil, nil)
		top := show(s.command("top", "--interval", "200ms"), 120, 12)
		Eventually(top.text).Should(MatchRegexp(`> evil\x{FFFD}`))
		top.press("\r")
		Eventually(top.text).Should(MatchRegexp(`1 running job\n  1 .*\[41mjob`))
		for _, sequence := range []string{"\x1b]0;owned", "\u009b", "\x1b[2J\u009b", "\x1b[41m", "\u202e", "\x07"} {
			Expect(top.output()).NotTo(ContainSubstring(sequence))
		}
		top.press("q")
		Eventually(top.ended, "10s").Should(Receive(BeNil()))
	})

	It("shows an outage, and continues after it", func() {
		s := openServer()
		s.queue("apples")
		top := show(s.command("top", "--interval", "200ms", "--timeout", "2s"), 100, 10)
		Eventually(top.text).Should(ContainSubstring("> apples"))
		s.redis.Kill()
		Eventually(top.text).Should(And(MatchRegexp(`\n! `), ContainSubstring("> apples")))
		Expect(s.redis.Restart()).To(Succeed())
		Eventually(func() error { return s.connection.Ping(ctx) }).Should(Succeed()) // it reconnects
		s.queue("pears")
		Eventually(top.text, "40s").Should(And(ContainSubstring("pears"), Not(MatchRegexp(`\n! `))))
		top.press("q")
		Eventually(top.ended, "10s").Should(Receive(BeNil()))
	})

	It("refuses to run without a terminal, and with an unknown column", func() {
		s := open()
		_, errors := s.run(2, "top")
		Expect(errors).To(ContainSubstring("top needs a terminal"))
		Expect(onTerminal(s.command("top", "--sort", "size"), "")).To(ContainSubstring(`there is no column "size" to sort by: use one of queue, ready`))
	})
})
