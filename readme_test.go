package bullmqgo_test

import (
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestReadme(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "Readme")
}

var (
	goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	link    = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// programs returns the Go blocks of a page that are complete programs.
func programs(page string) []string {
	var found []string
	for _, block := range goBlock.FindAllStringSubmatch(page, -1) {
		if strings.Contains(block[1], "package main") {
			found = append(found, block[1])
		}
	}
	return found
}

var _ = Describe("README.md", func() {
	var page string

	BeforeEach(func() {
		text, err := os.ReadFile("README.md")
		Expect(err).NotTo(HaveOccurred())
		page = string(text)
	})

	It("contains programs that compile", func() {
		all := programs(page)
		Expect(len(all)).To(BeNumerically(">=", 3), "one for each use")
		for i, program := range all {
			// A file named on the command line is compiled as part of this module, wherever it is.
			file := filepath.Join(GinkgoT().TempDir(), fmt.Sprintf("readme%d.go", i+1))
			Expect(os.WriteFile(file, []byte(program), 0o600)).To(Succeed())
			output, err := exec.Command("go", "vet", file).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s\n%s", output, program)
		}
	})

	It("contains programs formatted by gofmt", func() {
		for _, program := range programs(page) {
			formatted, err := format.Source([]byte(program))
			Expect(err).NotTo(HaveOccurred())
			Expect(program).To(Equal(string(formatted)))
		}
	})

	It("links to files that exist", func() {
		links := link.FindAllStringSubmatch(page, -1)
		Expect(links).NotTo(BeEmpty())
		for _, target := range links {
			Expect(filepath.FromSlash(target[1])).To(BeAnExistingFile())
		}
	})

	It("names every example", func() {
		examples, err := filepath.Glob("examples/*/main.go")
		Expect(err).NotTo(HaveOccurred())
		Expect(examples).NotTo(BeEmpty())
		for _, program := range examples {
			name := filepath.Base(filepath.Dir(program))
			Expect(page).To(Or(ContainSubstring("examples/"+name), ContainSubstring("make "+name)))
		}
	})
})
