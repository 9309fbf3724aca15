package docs_test

import (
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// A snippet is either a declaration or the body of a function with these parameters.
const given = "ctx context.Context, queue *bullmq.Queue, flows *bullmq.FlowProducer, job *bullmq.Job"

// imported are the packages that snippets may use.
var imported = []string{
	"context", "crypto/rand", "crypto/tls", "database/sql", "encoding/json", "errors", "fmt", "io", "log/slog", "net", "net/http",
	"net/http/httptest", "net/netip", "os", "regexp", "slices", "strings", "testing", "time", "github.com/17a2ac88/bullmq-go/bullmq",
	"github.com/17a2ac88/bullmq-go/bullmq/middleware", "github.com/17a2ac88/bullmq-go/bullmqpush", "github.com/17a2ac88/bullmq-go/bullmqtest",
	"github.com/17a2ac88/bullmq-go/bullmqhttp",
}

// declaration is the begin of a snippet that is not the body of a function.
var declaration = regexp.MustCompile(`^(func|type|var) `)

// importPath is an import in a block of them.
var importPath = regexp.MustCompile(`(?m)^\t"`)

// asFile returns a Go file that contains the snippet.
func asFile(n int, snippet string) string {
	body := snippet
	if strings.HasPrefix(snippet, "import (") { // without a use
		return "package main\n\n" + importPath.ReplaceAllString(snippet, "\t_ \"")
	}
	if !declaration.MatchString(snippet) {
		if !strings.Contains(lastLine(snippet), "return") {
			snippet += "return nil, nil\n"
		}
		body = fmt.Sprintf("func snippet%d(%s) (any, error) {\n%s}\n", n, given, snippet)
	}
	head := "package main\n\n"
	for _, path := range imported {
		if regexp.MustCompile(`\b` + filepath.Base(path) + `\.`).MatchString(body) {
			head += fmt.Sprintf("import %q\n", path)
		}
	}
	return head + "\n" + body
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// writeSnippets writes the snippets of a page to files of a package, and returns these.
func writeSnippets(page string) (files []string) {
	GinkgoHelper()
	blocks := goBlock.FindAllStringSubmatch(read(page), -1)
	Expect(blocks).NotTo(BeEmpty())
	folder := GinkgoT().TempDir()
	files = []string{filepath.Join(folder, "main.go")}
	Expect(os.WriteFile(files[0], []byte("package main\n\nfunc main() {}\n"), 0o600)).To(Succeed())
	for n, block := range blocks {
		formatted, err := format.Source([]byte(block[1]))
		Expect(err).NotTo(HaveOccurred(), block[1])
		Expect(block[1]).To(Equal(string(formatted)))
		suffix := ".go"
		if strings.HasPrefix(block[1], "func Test") {
			suffix = "_test.go"
		}
		file := filepath.Join(folder, fmt.Sprintf("snippet%d%s", n, suffix))
		Expect(os.WriteFile(file, []byte(asFile(n, block[1])), 0o600)).To(Succeed())
		files = append(files, file)
	}
	return files
}

// runGo runs a go command with files. Files named on the command line are compiled as part
// of this module, wherever they are.
func runGo(command []string, files []string) string {
	GinkgoHelper()
	output, err := exec.Command("go", append(command, files...)...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

var _ = DescribeTable("The snippets compile and are formatted by gofmt in", Label("slow"), func(page string) {
	runGo([]string{"vet"}, writeSnippets(page))
},
	Entry("cancelling.md", "cancelling.md"),
	Entry("operating.md", "operating.md"),
	Entry("dead-letters.md", "dead-letters.md"),
	Entry("flows.md", "flows.md"),
	Entry("http.md", "http.md"),
	Entry("many-queues.md", "many-queues.md"),
	Entry("push.md", "push.md"),
	Entry("recipes.md", "recipes.md"),
	Entry("scaling.md", "scaling.md"),
	Entry("routing.md", "routing.md"),
	Entry("schedulers.md", "schedulers.md"),
)

var _ = It("The test in http.md passes", Label("slow"), func() {
	output := runGo([]string{"test", "-v", "-count=1", "-timeout=1m"}, writeSnippets("http.md"))
	Expect(output).To(ContainSubstring("--- PASS: TestOrder"))
})

var _ = It("The tests in recipes.md pass", Label("slow"), func() {
	output := runGo([]string{"test", "-v", "-count=1", "-timeout=1m"}, writeSnippets("recipes.md"))
	Expect(output).To(And(ContainSubstring("--- PASS: TestCancelOrder"), ContainSubstring("--- PASS: TestShop")))
})
