package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
)

func TestSuite(t *testing.T) {
	RegisterFailHandler(ginkgo.Fail)
	Run(t, "internal/testkit/suite")
}

var _ = ginkgo.BeforeEach(Select)
var _ = ginkgo.BeforeEach(leaks.Check)

// nestedVariable makes the specs of a process that a spec has started behave
// differently.
const nestedVariable = "SUITE_TEST"

// run runs this suite in several processes and returns their output.
func run(ctx context.Context, processes int, nested string, flags ...string) (output string, err error) {
	program, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	flags = append(flags, "-ginkgo.v", "-ginkgo.no-color", "-ginkgo.focus=sample")
	cmd := exec.CommandContext(ctx, program, flags...)
	cmd.Env = append(os.Environ(), fmt.Sprint(processesVariable, "=", processes), shardVariable+"=", nestedVariable+"="+nested)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

var _ = ginkgo.Describe("A sample spec", func() {
	for n := range 20 {
		ginkgo.It(fmt.Sprintf("runs as number %d", n), func() {
			if os.Getenv(nestedVariable) == "fail" && n == 7 {
				ginkgo.Fail("sample failure")
			}
			if os.Getenv(nestedVariable) == "hang" && n == 7 {
				select {}
			}
			fmt.Printf("ran %d.\n", n)
		})
	}
})

var _ = ginkgo.Describe("A suite in several processes", func() {
	ginkgo.It("runs each spec once", func(ctx ginkgo.SpecContext) {
		output, err := run(ctx, 3, "pass")
		Expect(err).NotTo(HaveOccurred(), output)
		for n := range 20 {
			Expect(strings.Count(output, fmt.Sprintf("ran %d.", n))).To(Equal(1), output)
		}
		Expect(strings.Count(output, "SUCCESS!")).To(Equal(3))
	})

	ginkgo.It("fails if a spec fails, and shows its output", func(ctx ginkgo.SpecContext) {
		output, err := run(ctx, 3, "fail")
		Expect(err).To(HaveOccurred())
		Expect(output).To(And(ContainSubstring("sample failure"), ContainSubstring("specs of process")))
	})

	for attempts := range 3 {
		ginkgo.It(fmt.Sprint("ends with the name of a spec that hangs before the time limit of go test, with SPEC_ATTEMPTS=", attempts), func(ctx ginkgo.SpecContext) {
			ginkgo.GinkgoT().Setenv(attemptsVariable, fmt.Sprint(attempts))
			output, err := run(ctx, 3, "hang", "-test.timeout=30s")
			Expect(err).To(HaveOccurred())
			Expect(strings.Count(output, "[TIMEDOUT] A sample spec [It] runs as number 7")).To(Equal(1), output)
			Expect(output).NotTo(ContainSubstring("SIGQUIT"))
		})
	}
})

var _ = ginkgo.Describe("The selection of specs", func() {
	spec := func(ordered bool, texts ...string) ginkgo.SpecReport {
		last := len(texts) - 1
		return types.SpecReport{ContainerHierarchyTexts: texts[:last], LeafNodeText: texts[last], IsInOrderedContainer: ordered}
	}
	processOf := func(spec ginkgo.SpecReport) (found int) {
		for shard := range 4 {
			if selected(spec, shard+1, 4) {
				Expect(found).To(BeZero())
				found = shard + 1
			}
		}
		Expect(found).NotTo(BeZero())
		return found
	}

	ginkgo.It("distributes specs evenly", func() {
		count := map[int]int{}
		for n := range 1000 {
			count[processOf(spec(false, "A worker", fmt.Sprint("spec ", n)))]++
		}
		for shard := range 4 {
			Expect(count[shard+1]).To(BeNumerically("~", 250, 100))
		}
	})

	ginkgo.It("keeps the specs of an ordered container together", func() {
		first := processOf(spec(true, "A worker", "in order", "spec 0"))
		for n := range 100 {
			Expect(processOf(spec(true, "A worker", "in order", fmt.Sprint("spec ", n)))).To(Equal(first))
		}
	})
})
