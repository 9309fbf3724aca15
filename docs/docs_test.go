// Package docs_test checks that the documentation matches the code.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestDocs(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "Docs")
}

const protocolPage = "wire-protocol.md"

func read(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

func parse(path string) *ast.File {
	GinkgoHelper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	Expect(err).NotTo(HaveOccurred())
	return file
}

// text returns the value of a string literal, or "" for anything else.
func text(expression ast.Expr) string {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	Expect(err).NotTo(HaveOccurred())
	return value
}

// rows returns the elements of a table in a package variable, each with its elements.
func rows(path, variable string) [][]ast.Expr {
	GinkgoHelper()
	var found [][]ast.Expr
	ast.Inspect(parse(path), func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != variable || len(spec.Values) == 0 {
			return true
		}
		table, ok := spec.Values[0].(*ast.CompositeLit)
		Expect(ok).To(BeTrue(), "%s in %s is not a table", variable, path)
		for _, element := range table.Elts {
			row, ok := element.(*ast.CompositeLit)
			Expect(ok).To(BeTrue(), "a row of %s in %s is not a literal", variable, path)
			found = append(found, row.Elts)
		}
		return false
	})
	Expect(found).NotTo(BeEmpty(), "%s has no table %s", path, variable)
	return found
}

// constants returns the constants of a type by name, as expressions.
func constants(path, typeName string) map[string]ast.Expr {
	GinkgoHelper()
	found := map[string]ast.Expr{}
	ast.Inspect(parse(path), func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == typeName {
			found[spec.Names[0].Name] = spec.Values[0]
		}
		return true
	})
	Expect(found).NotTo(BeEmpty(), "%s has no constants of type %s", path, typeName)
	return found
}

// section returns the text below a heading, up to the next heading of the same or a higher level.
func section(page, heading string) string {
	GinkgoHelper()
	_, body, found := strings.Cut(page, "\n"+heading+"\n")
	Expect(found).To(BeTrue(), "the page has no heading %q", heading)
	level := strings.Count(strings.Fields(heading)[0], "#")
	if end := regexp.MustCompile(`(?m)^#{1,` + strconv.Itoa(level) + `} `).FindStringIndex(body); end != nil {
		body = body[:end[0]]
	}
	return body
}

// expectCode checks that a section mentions a word in backquotes.
func expectCode(where, word string) {
	GinkgoHelper()
	Expect(strings.Contains(where, "`"+word+"`")).To(BeTrue(), "%s does not mention `%s`", protocolPage, word)
}

var _ = It("A page with a list of contents lists all its sections", func() {
	pages, err := filepath.Glob("*.md")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range pages {
		contents, sections, found := strings.Cut(read(name), "\n## ")
		if !found || !strings.Contains(contents, "\n- [") || !strings.Contains(contents, "](#") {
			continue
		}
		for _, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch("## "+sections, -1) {
			Expect(contents).To(ContainSubstring("- ["+heading[1]+"](#"+anchor(heading[1])+")"), "contents of %s", name)
		}
	}
})

var _ = Describe("The wire protocol page", func() {
	It("names every key of a queue", func() {
		keys := section(read(protocolPage), "### Keys of a queue")
		for _, row := range rows("../bullmq/keys.go", "layout") {
			expectCode(keys, text(row[0]))
		}
	})

	It("names every group of keys", func() {
		keys := section(read(protocolPage), "## 2. Keys")
		for _, row := range rows("../bullmq/keys.go", "keyFamilies") {
			start, end := text(row[0]), text(row[1])
			pattern := "`" + regexp.QuoteMeta(start) + "<[^>`]+>" + regexp.QuoteMeta(end) + "`"
			Expect(keys).To(MatchRegexp(pattern), "a key %s<…>%s", start, end)
		}
	})

	It("names every job option by its name on the wire and its public name", func() {
		opts := section(read(protocolPage), "### Opts on the wire")
		for _, row := range rows("../bullmq/job_codec.go", "jobOptions") {
			name, wire := text(row[0]), text(row[1])
			if wire != "" {
				expectCode(opts, wire)
			}
			if name != "" {
				Expect(opts).To(MatchRegexp(`(?m)^\| `+name+`[ .]`), "option %s has no row", name)
			}
		}
	})

	It("has a row for every event", func() {
		events := section(read(protocolPage), "## 16. Events stream")
		for name, value := range constants("../bullmq/events.go", "EventType") {
			event := text(value)
			Expect(event).NotTo(BeEmpty(), name)
			Expect(events).To(MatchRegexp("(?m)^\\|[^|]*`"+regexp.QuoteMeta(event)+"`"), "event %s has no row", event)
		}
	})

	It("has a row for every error code under its name in this SDK", func() {
		codes := section(read(protocolPage), "## 19. Error codes")
		for name, value := range constants("../bullmq/internal/backend/errors.go", "Code") {
			negative, ok := value.(*ast.UnaryExpr)
			Expect(ok && negative.Op == token.SUB).To(BeTrue(), "%s is not a negative number", name)
			number := "-" + negative.X.(*ast.BasicLit).Value
			Expect(codes).To(ContainSubstring("\n| " + number + " | " + name + " |"))
		}
	})

	DescribeTable("and the other pages have no broken links:", func(name string) {
		page := read(name)
		anchors := map[string]bool{}
		for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
			anchors[anchor(heading[1])] = true
		}
		prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, "") // a type's parameters look like a link
		links := regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose, -1)
		Expect(links).NotTo(BeEmpty())
		for _, link := range links {
			file, place, inside := strings.Cut(link[1], "#")
			switch {
			case strings.Contains(link[1], "://"):
			case file == "" && inside:
				Expect(anchors).To(HaveKey(place), "%s links to #%s", name, place)
			default:
				Expect(file).To(BeAnExistingFile(), "%s links to it", name)
			}
		}
	},
		Entry("wire-protocol.md", protocolPage),
		Entry("legacy-queues.md", "legacy-queues.md"),
		Entry("workers.md", "workers.md"),
		Entry("cancelling.md", "cancelling.md"),
		Entry("operating.md", "operating.md"),
		Entry("dashboard.md", "dashboard.md"),
		Entry("http.md", "http.md"),
		Entry("http-jobs.md", "http-jobs.md"),
		Entry("dead-letters.md", "dead-letters.md"),
		Entry("telemetry.md", "telemetry.md"),
		Entry("metrics.md", "metrics.md"),
		Entry("testing.md", "testing.md"),
		Entry("compatibility.md", compatibilityPage),
		Entry("flows.md", "flows.md"),
		Entry("schedulers.md", "schedulers.md"),
		Entry("push.md", "push.md"),
		Entry("benchmarks.md", "benchmarks.md"),
		Entry("guarantees.md", guaranteesPage),
		Entry("architecture.md", architecturePage),
	)
})

var _ = Describe("The page of workers", func() {
	It("contains only code from its example", func() {
		example := read("../examples/controls/main.go")
		pieces := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(read("workers.md"), -1)
		Expect(len(pieces)).To(BeNumerically(">=", 5))
		for _, piece := range pieces {
			Expect(example).To(ContainSubstring(piece[1]))
		}
	})

	It("has a row for every function of WorkerEvents", func() {
		events := section(read("workers.md"), "## Events")
		functions := 0
		ast.Inspect(parse("../bullmq/worker_events.go"), func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "WorkerEvents" {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				functions++
				Expect(events).To(MatchRegexp("(?m)^\\| `.*\\|.*`"+field.Names[0].Name+"`"), "no row has %s", field.Names[0].Name)
			}
			return false
		})
		Expect(functions).To(BeNumerically(">", 10))
	})
})

var _ = Describe("The page of testing", func() {
	It("contains only code and wire files from the tests of bullmqtest", func() {
		page, guide := read("testing.md"), read("../bullmqtest/guide_test.go")
		pieces := goBlock.FindAllStringSubmatch(page, -1)
		Expect(len(pieces)).To(BeNumerically(">=", 8))
		for _, piece := range pieces {
			Expect(guide).To(ContainSubstring(piece[1]))
		}
		Expect(page).To(ContainSubstring("```json\n" + read("../bullmqtest/testdata/bill.json") + "```"))
	})
})

var _ = Describe("The page of the dashboard", func() {
	It("serves it with code of its example, and has a row for every option", func() {
		example, page := read("../dashboard/example/main.go"), read("dashboard.md")
		block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(page)
		Expect(block).To(HaveLen(2))
		Expect(example).To(ContainSubstring(block[1]))
		for name := range exportedBy("../dashboard") {
			if option, ok := strings.CutPrefix(name, "Options."); ok {
				Expect(section(page, "## Options")).To(MatchRegexp("(?m)^\\| `"+option+"` \\|"), option)
			}
		}
	})
})

var _ = Describe("The page of metrics", func() {
	It("sets up a worker with code of its example", func() {
		example := read("../bullmqprom/example/main.go")
		block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(read("metrics.md"))
		Expect(block).To(HaveLen(2))
		for line := range strings.Lines(block[1]) {
			Expect(example).To(ContainSubstring(strings.TrimRight(line, "\n")))
		}
	})

	It("names every metric and outcome", func() {
		page := read("metrics.md")
		for file, pattern := range map[string]string{"queues.go": `desc\("(\w+)"`, "metrics.go": `"(bullmq_\w+)"`, "telemetry.go": `Outcome\w+ += "(\w+)"`} {
			names := regexp.MustCompile(pattern).FindAllStringSubmatch(read("../bullmqprom/"+file), -1)
			Expect(len(names)).To(BeNumerically(">=", 8), file)
			for _, name := range names {
				Expect(page).To(MatchRegexp("(?m)^\\| .*`"+name[1]+"`"), file)
			}
		}
	})
})

var _ = Describe("The page of telemetry", func() {
	It("contains only code from its example", func() {
		example := read("../examples/telemetry/main.go")
		block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(read("telemetry.md"))
		Expect(block).To(HaveLen(2))
		for line := range strings.Lines(block[1]) {
			Expect(example).To(ContainSubstring(strings.TrimRight(line, "\n")))
		}
	})

	It("names every span and attribute", func() {
		page := read("telemetry.md")
		files, err := filepath.Glob("../bullmq/*.go")
		Expect(err).NotTo(HaveOccurred())
		operations := regexp.MustCompile(`Span(?:Internal|Producer|Consumer), "(\w+)"|operation = "(\w+)"`)
		found := 0
		for _, file := range files {
			for _, operation := range operations.FindAllStringSubmatch(read(file), -1) {
				found++
				Expect(page).To(MatchRegexp("(?m)^\\| .*`"+operation[1]+operation[2]+"[ `]"), file)
			}
		}
		Expect(found).To(BeNumerically(">", 25))
		for _, attribute := range regexp.MustCompile(`"bullmq\.([a-z._]+)"`).FindAllStringSubmatch(read("../bullmq/tracing.go"), -1) {
			Expect(page).To(MatchRegexp("`(bullmq\\.)?" + regexp.QuoteMeta(attribute[1]) + "`"))
		}
	})
})

// anchor returns the link target of a heading: lower case, without punctuation, and with hyphens for spaces.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}
