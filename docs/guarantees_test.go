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

// citedTests returns the tests that a page names, by file: the cells of each column headed "tests", in which each test
// is a file in backquotes, a colon and a title, separated by <br>.
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

// fullTitles returns what can be cited of a test file, by the titles that Ginkgo prints: each spec, each entry of a
// table, and each table as a whole, with the titles of all containers around it. A title is known if it is a string
// literal, or literals joined by +. One that is computed when the tests run, by fmt.Sprintf or from a variable, has no
// title here, nor has what it contains, so it can't be cited; neither can entries that a function makes, but their
// table can.
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
		// Ginkgo's tree is made by var _ = Describe(…); entries in other variables, and specs that a function makes,
		// have their titles elsewhere.
		variable, ok := declaration.(*ast.GenDecl)
		if ok && variable.Tok == token.VAR && variable.Specs[0].(*ast.ValueSpec).Names[0].Name == "_" {
			visit(variable, "")
		}
	}
	return found
}

// calledName returns the name of a function that is called, without its package.
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

// testPath returns where a file lies that the page names: in bullmq, or in interop if it has a directory.
func testPath(file string) string {
	if strings.Contains(file, "/") {
		return "../interop/" + file
	}
	return "../bullmq/" + file
}

var _ = Describe("The page of guarantees", func() {
	It("names each test by its file and its full title", func() {
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

	It("names tests in the columns for them only", func() {
		page := read(guaranteesPage)
		cited := 0
		for _, titles := range citedTests(page) {
			cited += len(titles)
		}
		Expect(strings.Count(page, "_test.go")).To(Equal(cited))
	})

	It("names every error and option that it promises by", func() {
		page := read(guaranteesPage)
		for _, word := range []string{"ErrMaybeAdded", "ErrLockLost", "ErrShutdown", "UnfinishedError", "AddWait", "OnHealth", "ShutdownTimeout"} {
			Expect(page).To(ContainSubstring(word))
		}
	})
})
