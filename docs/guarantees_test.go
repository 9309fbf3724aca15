package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const guaranteesPage = "guarantees.md"

// citedTests returns the cited tests of a page by file. They are in the columns headed "tests", separated by
// <br>. Each is a file in backquotes, a colon and a title.
func citedTests(page string) map[string][]string {
	GinkgoHelper()
	tests := map[string][]string{}
	column := -1
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			column = -1
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if at := slices.Index(cells, "tests"); at >= 0 {
			column = at
			continue
		}
		if column < 0 || strings.HasPrefix(cells[0], "---") {
			continue
		}
		Expect(len(cells)).To(BeNumerically(">", column), line)
		for _, test := range strings.Split(cells[column], "<br>") {
			found := regexp.MustCompile("^`([^`]+_test\\.go)`: (.+)$").FindStringSubmatch(test)
			Expect(found).NotTo(BeNil(), "no test, or no `file`: title, in %q of %s", test, line)
			tests[found[1]] = append(tests[found[1]], found[2])
		}
	}
	return tests
}

// fullTitles returns the titles in a test file that can be cited, as Ginkgo prints them: each spec, each
// table entry, and each table, preceded by the titles of its containers. A title is known if it is a string
// literal or literals joined by +. Titles computed at run time, by fmt.Sprintf or from a variable, cannot be
// cited, nor can anything inside such a container. Entries made by a function cannot be cited either, but
// their table can.
func fullTitles(file *ast.File) []string {
	var found []string
	var visit func(node ast.Node, around string)
	visit = func(node ast.Node, around string) {
		ast.Inspect(node, func(inner ast.Node) bool {
			call, ok := inner.(*ast.CallExpr)
			if !ok || inner == node || len(call.Args) == 0 {
				return true
			}
			kind := calledName(call)
			if !slices.Contains([]string{"Describe", "Context", "When", "DescribeTable", "It", "Entry"}, kind) {
				return true
			}
			own, known := literalText(call.Args[0])
			if !known {
				return false
			}
			title := own
			if around != "" {
				title = around + " " + own
			}
			if slices.Contains([]string{"DescribeTable", "It", "Entry"}, kind) {
				found = append(found, title)
			}
			visit(call, title)
			return false
		})
	}
	for _, declaration := range file.Decls {
		// Ginkgo's tree is built by var _ = Describe(…). Entries in other variables and specs made by
		// functions have no fixed containers.
		variable, ok := declaration.(*ast.GenDecl)
		if ok && variable.Tok == token.VAR && variable.Specs[0].(*ast.ValueSpec).Names[0].Name == "_" {
			visit(variable, "")
		}
	}
	return found
}

// calledName returns the name of the called function, without its package.
func calledName(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	}
	return ""
}

// literalText returns the text of a string literal, or of several joined by +, and reports whether it is one.
func literalText(expression ast.Expr) (value string, ok bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return text(e), e.Kind == token.STRING
	case *ast.ParenExpr:
		return literalText(e.X)
	case *ast.BinaryExpr:
		left, leftOK := literalText(e.X)
		right, rightOK := literalText(e.Y)
		return left + right, leftOK && rightOK && e.Op == token.ADD
	}
	return "", false
}

// testPath returns the path of a cited file: in bullmq, or, if the name has a directory, in that of bullmqhttp or in
// interop.
func testPath(file string) string {
	switch {
	case strings.HasPrefix(file, "bullmqhttp/"):
		return "../" + file
	case strings.Contains(file, "/"):
		return "../interop/" + file
	default:
		return "../bullmq/" + file
	}
}

var _ = Describe("The page of routes", func() {
	It("cites each test by its file and full title", func() {
		cited := citedTests(read("routing.md"))
		Expect(cited).NotTo(BeEmpty())
		for file, titles := range cited {
			Expect(fullTitles(parse(testPath(file)))).To(ContainElements(titles), file)
		}
	})

	It("contains the JavaScript whose result a test compares with Go", func() {
		lines := regexp.MustCompile(`(?ms)^const routeOf .*?^};$`).FindString(read("../interop/node/routes.mjs"))
		Expect(strings.Split(lines, "\n")).To(HaveLen(5))
		Expect(read("routing.md")).To(ContainSubstring(lines))
		Expect(read("../examples/routing/producer.mjs")).To(ContainSubstring(lines))
	})
})
var _ = Describe("The guarantees page", func() {
	It("cites each test by its file and full title", func() {
		count := 0
		for file, titles := range citedTests(read(guaranteesPage)) {
			known := fullTitles(parse(testPath(file)))
			for _, title := range titles {
				Expect(slices.Contains(known, title)).To(BeTrue(), "%s has no test with the full title %q", file, title)
				count++
			}
		}
		Expect(count).To(BeNumerically(">", 25))
	})

	It("is compared with the titles that Ginkgo prints", func() {
		file, err := parser.ParseFile(token.NewFileSet(), "", `package p
var _ = Describe("A thing", func() {
	It("works", nil)
	Context("in the rain", func() {
		for range 2 { It("gets " + "wet", nil) }
		DescribeTable("dries", func(int) {}, Entry("soon", 1), Entry(nil, 2), Entry(computed, 3), entries())
	})
	Describe(fmt.Sprintf("number %d", 1), func() { It("has no title here", nil) })
})
var others = []TableEntry{Entry("is of no table here", 1)}
func more() { It("is of no container here", nil) }
`, parser.SkipObjectResolution)
		Expect(err).NotTo(HaveOccurred())
		Expect(fullTitles(file)).To(Equal([]string{
			"A thing works", "A thing in the rain gets wet",
			"A thing in the rain dries", "A thing in the rain dries soon",
		}))
	})

	It("cites tests only in the columns for them", func() {
		page := read(guaranteesPage)
		cited := 0
		for _, titles := range citedTests(page) {
			cited += len(titles)
		}
		Expect(strings.Count(page, "_test.go")).To(Equal(cited))
	})

	It("names every error and option of its guarantees", func() {
		page := read(guaranteesPage)
		for _, word := range []string{"ErrMaybeAdded", "ErrLockLost", "ErrShutdown", "UnfinishedError", "AddWait", "OnHealth", "ShutdownTimeout"} {
			Expect(page).To(ContainSubstring(word))
		}
	})
})
