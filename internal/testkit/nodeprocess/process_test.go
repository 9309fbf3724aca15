package nodeprocess

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A Node program", func() {
	It("gets what is sent as JSON and answers in JSON", func() {
		process := start()
		sent := message{"text": "é😀 <&>\u2028", "list": []any{"a", nil, true, 1.5}}
		Expect(process.Send(message{"say": sent})).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		var got message
		Expect(line.Decode(&got)).To(Succeed())
		Expect(got).To(Equal(sent))
	})

	It("hands out the wanted line and passes over those before it", func() {
		process := start()
		Expect(process.Send(message{"flood": 1000})).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(line Line) bool {
			var got struct{ N int }
			return line.Decode(&got) == nil && got.N == 500
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(line.String()).To(Equal(`{"n":500}`))
		Expect(<-process.Lines()).To(BeEquivalentTo(`{"n":501}`))
	})

	It("hands out every line in order and closes the channel at the end of the output", func() {
		process := start()
		Expect(process.Send(message{"flood": 5000, "exit": 0})).To(Succeed())
		ctx := within(10 * time.Second)
		for n := range 5000 {
			line, err := process.WaitFor(ctx, func(Line) bool { return true })
			Expect(err).NotTo(HaveOccurred())
			Expect(line.String()).To(Equal(`{"n":` + strconv.Itoa(n) + `}`))
		}
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(BeClosed())
	})

	It("may write lines of megabytes, blank lines, and a last line without an end", func() {
		process := start()
		long := strings.Repeat("x", 3<<20)
		Expect(process.Send(message{"say": long})).To(Succeed())
		Expect(process.Send(message{"raw": "\n\n\"last\"", "exit": 0})).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(len(line)).To(Equal(len(long) + 2)) // HaveLen would print it all
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(Receive(BeEquivalentTo(`"last"`)))
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(BeClosed())
	})

	It("sees the end of its input", func() {
		process := start()
		Expect(process.CloseInput()).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(line.String()).To(ContainSubstring("end of input"))
		Expect(process.Wait(within(10 * time.Second))).To(Equal(0))
	})

	It("can tidy up when it is stopped, and its last lines and exit status are there", func() {
		process := start("-tidy")
		Expect(process.Send(message{"say": "ready"})).To(Succeed())
		_, err := process.WaitFor(within(10*time.Second), func(line Line) bool { return line.String() == `"ready"` })
		Expect(err).NotTo(HaveOccurred())
		Expect(process.Stop()).To(Equal(3))
		Eventually(process.Lines()).Should(Receive(BeEquivalentTo(`{"event":"tidied"}`)))
		Expect(process.Stop()).To(Equal(3))
	})

	It("is killed when it doesn't end after the grace", func() {
		process := start("-stubborn")
		Expect(process.Send(message{"say": "ready"})).To(Succeed())
		_, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(process.child.Stop(50 * time.Millisecond)).To(BeFalse())
		Expect(process.Wait(within(time.Second))).To(Equal(-1))
	})

	It("tells its exit status and what it complained about when it ends before the wanted line", func() {
		process := start()
		Expect(process.Send(message{"say": "one", "complain": "no such queue", "exit": 7})).To(Succeed())
		_, err := process.WaitFor(within(10*time.Second), func(Line) bool { return false })
		Expect(err).To(MatchError(And(ContainSubstring("program.mjs"), ContainSubstring("exit status 7"),
			ContainSubstring("one"), ContainSubstring("no such queue"))))
	})

	It("stops waiting for a line when the context ends, and tells the last one seen", func() {
		process := start()
		Expect(process.Send(message{"say": "one"})).To(Succeed())
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := process.WaitFor(ctx, func(Line) bool { cancel(context.DeadlineExceeded); return false })
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(ContainSubstring("one")))
	})

	It("refuses what is sent after its end, and says why it ended", func() {
		process := start()
		Expect(process.Send(message{"complain": "out of luck", "exit": 1})).To(Succeed())
		Expect(process.Wait(within(10 * time.Second))).To(Equal(1))
		Eventually(process.Stderr).Should(ContainSubstring("out of luck"))
		Expect(process.Send(message{"say": "hello"})).To(MatchError(ContainSubstring("out of luck")))
	})

	It("says which line wasn't JSON", func() {
		process := start()
		Expect(process.Send(message{"raw": "hello there\n"})).To(Succeed())
		var got message
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(line.Decode(&got)).To(MatchError(ContainSubstring("hello there")))
	})

	It("does nothing while frozen and goes on when thawed", func() {
		process := start()
		Expect(process.Freeze()).To(Succeed())
		Expect(process.Send(message{"say": "awake"})).To(Succeed())
		Consistently(process.Lines()).WithTimeout(100 * time.Millisecond).ShouldNot(Receive())
		Expect(process.Thaw()).To(Succeed())
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(Receive(BeEquivalentTo(`"awake"`)))
	})

	It("is looked for in interop/node when its path is relative", func() {
		process, err := Start("../../internal/testkit/nodeprocess/testdata/program.mjs")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(process.Kill)
		Expect(process.Send(message{"say": "found"})).To(Succeed())
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(Receive(BeEquivalentTo(`"found"`)))
	})

	It("dies with the process that started it", func() {
		if runtime.GOOS != "linux" {
			Skip("only Linux ends a program together with the one that started it")
		}
		owner := exec.Command(os.Args[0])
		owner.Env = append(os.Environ(), ownerVariable+"="+script())
		output, err := owner.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(owner.Start()).To(Succeed())
		line, err := bufio.NewReader(output).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		Expect(err).NotTo(HaveOccurred(), line)
		Expect(running(pid)).To(BeTrue())
		Expect(owner.Process.Kill()).To(Succeed())
		_ = owner.Wait()
		Eventually(running).WithArguments(pid).WithTimeout(5 * time.Second).Should(BeFalse())
	})
})

// running tells whether there is such a process and it isn't just waiting to be reaped.
func running(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(state, "Z")
}

var _ = Describe("Find", func() {
	It("finds interop/node from anywhere within the module", func() {
		root, err := ModuleRoot()
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(root, "go.mod")).To(BeARegularFile())
		Expect(Find()).To(HaveField("Directory", filepath.Join(root, "interop", "node")))
	})

	It("says in one line that node is missing", func() {
		GinkgoT().Setenv("PATH", GinkgoT().TempDir())
		_, err := Start("driver.mjs")
		Expect(err).To(MatchError(ErrNodeMissing))
		Expect(err).To(MatchError(Not(ContainSubstring("\n"))))
	})

	It("says in one line that the packages are missing", func() {
		elsewhere := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(elsewhere, "go.mod"), []byte("module other\n"), 0o600)).To(Succeed())
		GinkgoT().Chdir(elsewhere)
		_, err := Start("driver.mjs")
		Expect(err).To(MatchError(ErrPackagesMissing))
		Expect(err).To(MatchError(And(ContainSubstring("npm ci"), Not(ContainSubstring("\n")))))
	})

	It("says so when it is used outside of a module", func() {
		GinkgoT().Chdir(GinkgoT().TempDir())
		_, err := Find()
		Expect(err).To(MatchError(ContainSubstring("no go.mod")))
	})
})

var _ = Describe("Another program", func() {
	It("is run as those of Node are, under its own name and process id, with its lines on standard error counted", func() {
		process, err := Run("a shell", exec.Command("sh", "-c", "echo '{\"pid\":'$$'}'; echo one >&2; echo two >&2; exit 3"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(process.Kill)
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		var said struct{ Pid int }
		Expect(line.Decode(&said)).To(Succeed())
		Expect(said.Pid).To(Equal(process.Pid()))
		_, err = process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).To(MatchError(And(ContainSubstring("a shell ended (exit status 3)"), ContainSubstring("two"))))
		Expect(process.StderrLines()).To(Equal(2))
	})
})
