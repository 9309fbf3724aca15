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
	It("receives and sends JSON", func() {
		process := start()
		sent := message{"text": "é😀 <&>\u2028", "list": []any{"a", nil, true, 1.5}}
		Expect(process.Send(message{"say": sent})).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		var got message
		Expect(line.Decode(&got)).To(Succeed())
		Expect(got).To(Equal(sent))
	})

	It("is read up to the wanted line, and earlier lines are discarded", func() {
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

	It("has its lines delivered in order and the channel closed at the end of the output", func() {
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

	It("may write megabytes on a line, blank lines, and a last line without a line end", func() {
		process := start()
		long := strings.Repeat("x", 3<<20)
		Expect(process.Send(message{"say": long})).To(Succeed())
		Expect(process.Send(message{"raw": "\n\n\"last\"", "exit": 0})).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(len(line)).To(Equal(len(long) + 2)) // HaveLen would print all of it
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(Receive(BeEquivalentTo(`"last"`)))
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(BeClosed())
	})

	It("receives the end of its input", func() {
		process := start()
		Expect(process.CloseInput()).To(Succeed())
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(line.String()).To(ContainSubstring("end of input"))
		Expect(process.Wait(within(10 * time.Second))).To(Equal(0))
	})

	It("can clean up when it is stopped, and its last lines and exit status are available", func() {
		process := start("-tidy")
		Expect(process.Send(message{"say": "ready"})).To(Succeed())
		_, err := process.WaitFor(within(10*time.Second), func(line Line) bool { return line.String() == `"ready"` })
		Expect(err).NotTo(HaveOccurred())
		Expect(process.Stop()).To(Equal(3))
		Eventually(process.Lines()).Should(Receive(BeEquivalentTo(`{"event":"tidied"}`)))
		Expect(process.Stop()).To(Equal(3))
	})

	It("is killed when it does not exit in time", func() {
		process := start("-stubborn")
		Expect(process.Send(message{"say": "ready"})).To(Succeed())
		_, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(process.child.Stop(50 * time.Millisecond)).To(BeFalse())
		Expect(process.Wait(within(10 * time.Second))).To(Equal(-1))
	})

	It("that exits before the wanted line yields an error with its exit status and standard error", func() {
		process := start()
		Expect(process.Send(message{"say": "one", "complain": "no such queue", "exit": 7})).To(Succeed())
		_, err := process.WaitFor(within(10*time.Second), func(Line) bool { return false })
		Expect(err).To(MatchError(And(ContainSubstring("program.mjs"), ContainSubstring("status 7"),
			ContainSubstring("one"), ContainSubstring("no such queue"))))
	})

	It("is no longer waited for when the context ends, and the error contains the last line", func() {
		process := start()
		Expect(process.Send(message{"say": "one"})).To(Succeed())
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := process.WaitFor(ctx, func(Line) bool { cancel(context.DeadlineExceeded); return false })
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(ContainSubstring("one")))
	})

	It("cannot be sent anything after its exit, and the error contains the reason", func() {
		process := start()
		Expect(process.Send(message{"complain": "out of luck", "exit": 1})).To(Succeed())
		Expect(process.Wait(within(10 * time.Second))).To(Equal(1))
		Eventually(process.Stderr).Should(ContainSubstring("out of luck"))
		Expect(process.Send(message{"say": "hello"})).To(MatchError(ContainSubstring("out of luck")))
	})

	It("whose line is not JSON yields an error that quotes the line", func() {
		process := start()
		Expect(process.Send(message{"raw": "hello there\n"})).To(Succeed())
		var got message
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		Expect(line.Decode(&got)).To(MatchError(ContainSubstring("hello there")))
	})

	It("does nothing while frozen and continues when thawed", func() {
		process := start()
		Expect(process.Freeze()).To(Succeed())
		Expect(process.Send(message{"say": "awake"})).To(Succeed())
		Consistently(process.Lines()).WithTimeout(100 * time.Millisecond).ShouldNot(Receive())
		Expect(process.Thaw()).To(Succeed())
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(Receive(BeEquivalentTo(`"awake"`)))
	})

	It("with a relative path is found in interop/node", func() {
		process, err := Start("../../internal/testkit/nodeprocess/testdata/program.mjs")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(process.Kill)
		Expect(process.Send(message{"say": "found"})).To(Succeed())
		Eventually(process.Lines()).WithTimeout(10 * time.Second).Should(Receive(BeEquivalentTo(`"found"`)))
	})

	It("dies with its parent process", func() {
		if runtime.GOOS != "linux" {
			Skip("only Linux kills a child with its parent")
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
		Eventually(running).WithArguments(pid).Should(BeFalse())
	})
})

// running reports whether the process exists and is not a zombie.
func running(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(state, "Z")
}

var _ = Describe("Find", func() {
	It("finds interop/node from any directory of the repository", func() {
		root, err := ModuleRoot()
		Expect(err).NotTo(HaveOccurred())
		Expect(filepath.Join(root, "go.work")).To(BeARegularFile())
		Expect(Find()).To(HaveField("Directory", filepath.Join(root, "interop", "node")))
	})

	It("returns a one-line error if node is missing", func() {
		GinkgoT().Setenv("PATH", GinkgoT().TempDir())
		_, err := Start("driver.mjs")
		Expect(err).To(MatchError(ErrNodeMissing))
		Expect(err).To(MatchError(Not(ContainSubstring("\n"))))
	})

	It("returns a one-line error if the packages are missing", func() {
		elsewhere := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(elsewhere, "go.work"), nil, 0o600)).To(Succeed())
		GinkgoT().Chdir(elsewhere)
		_, err := Start("driver.mjs")
		Expect(err).To(MatchError(ErrPackagesMissing))
		Expect(err).To(MatchError(And(ContainSubstring("npm ci"), Not(ContainSubstring("\n")))))
	})

	It("returns an error outside a repository", func() {
		GinkgoT().Chdir(GinkgoT().TempDir())
		_, err := Find()
		Expect(err).To(MatchError(ContainSubstring("no go.work")))
	})
})

var _ = Describe("Another program", func() {
	It("is run under its own name and process id, and its lines on standard error are counted", func() {
		process, err := Run("a shell", exec.Command("sh", "-c", "echo '{\"pid\":'$$'}'; echo one >&2; echo two >&2; exit 3"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(process.Kill)
		line, err := process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).NotTo(HaveOccurred())
		var reported struct{ Pid int }
		Expect(line.Decode(&reported)).To(Succeed())
		Expect(reported.Pid).To(Equal(process.Pid()))
		_, err = process.WaitFor(within(10*time.Second), func(Line) bool { return true })
		Expect(err).To(MatchError(And(ContainSubstring("a shell exited (status 3)"), ContainSubstring("two"))))
		Expect(process.StderrLines()).To(Equal(2))
	})
})
