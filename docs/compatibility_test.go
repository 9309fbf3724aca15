package docs_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
	"github.com/17a2ac88/bullmq-go/interop/parity"
)

const compatibilityPage = "compatibility.md"

// pending lists planned calls that the page marks with TODO, such as Queue.add. When a call is added, remove
// it here and give its row a test.
var pending []string

// classSections are the sections with rows of whole classes. ownSection lists what Node lacks.
var classSections = []string{"Errors", "Without a counterpart"}

const ownSection = "Only in bullmq-go"

// entry is a row of a table of the page.
type entry struct {
	section string
	node    []string // members or classes of bullmq; of this SDK in ownSection
	ours    []string // identifiers of package bullmq
	lacks   bool     // no counterpart
	todo    bool
	wire    string
	shown   []evidence
	reason  string // the text of the last column
}

func (e entry) String() string { return e.section + ": " + strings.Join(e.node, ", ") }

// evidence is a test file, relative to this directory, and the full title of a test in it, or the name of a
// scenario.
type evidence struct{ file, title string }

func (e evidence) isScenario() bool { return strings.HasSuffix(e.file, ".json") }

// runsBoth reports whether the test runs both libraries.
func (e evidence) runsBoth() bool { return e.isScenario() || strings.HasPrefix(e.file, "../interop/") }

var codeSpan = regexp.MustCompile("`([^`]+)`")

func spans(cell string) []string {
	var found []string
	for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
		found = append(found, span[1])
	}
	return found
}

// cite parses the last column: one or more pairs of file and title.
func cite(cell string) []evidence {
	var cited []evidence
	places := codeSpan.FindAllStringSubmatchIndex(cell, -1)
	for i, at := range places {
		name, end := cell[at[2]:at[3]], len(cell)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		title := strings.TrimSpace(cell[at[1]:end])
		switch {
		case strings.HasPrefix(name, "tests/"), strings.HasPrefix(name, "telemetry/"):
			cited = append(cited, evidence{"../interop/" + name, title})
		case strings.HasSuffix(name, ".go"):
			cited = append(cited, evidence{"../bullmq/" + name, title})
		default:
			cited = append(cited, evidence{"../interop/scenarios/" + name + ".json", title})
		}
	}
	return cited
}

func readPage() []entry {
	GinkgoHelper()
	var entries []entry
	section := ""
	for line := range strings.Lines(read(compatibilityPage)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			section = heading
		}
		if line == "## "+ownSection {
			section = ownSection
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		Expect(section).NotTo(BeEmpty(), line)
		if section == ownSection {
			Expect(cells).To(HaveLen(3), line)
			cells = []string{cells[0], cells[0], "local", cells[2]}
		}
		Expect(cells).To(HaveLen(4), line)
		e := entry{
			section: section, node: spans(cells[0]), ours: spans(cells[1]), wire: cells[2], reason: cells[3],
			lacks: cells[1] == "—", todo: strings.Contains(cells[1], "TODO"),
		}
		if !e.lacks && !e.todo {
			e.shown = cite(cells[3])
		}
		entries = append(entries, e)
	}
	Expect(entries).NotTo(BeEmpty())
	return entries
}

// offer is the output of members.mjs.
type offer struct {
	Classes []string
	Members map[string]map[string]string // type to member to "call" or "value"
}

func askNode(types []string) offer {
	GinkgoHelper()
	node, err := nodeprocess.Find()
	if err != nil {
		Skip("cannot list the members of bullmq: " + err.Error())
	}
	command := exec.Command(node.Node, append([]string{"members.mjs"}, types...)...)
	command.Dir = node.Directory
	command.Stderr = GinkgoWriter
	text, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	var o offer
	Expect(json.Unmarshal(text, &o)).To(Succeed())
	return o
}

// typesOn returns the sections about one class or type of Node's.
func typesOn(page []entry) []string {
	var types []string
	for _, e := range page {
		if e.section != ownSection && !slices.Contains(classSections, e.section) && !slices.Contains(types, e.section) {
			types = append(types, e.section)
		}
	}
	return types
}

// exported returns the identifiers of package bullmq: Type, Func, Type.Method, Type.Field, constants and
// variables.
func exported() map[string]bool {
	GinkgoHelper()
	return exportedBy("../bullmq")
}

// exportedBy returns the same of the package in a directory.
func exportedBy(directory string) map[string]bool {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(directory, "*.go"))
	Expect(err).NotTo(HaveOccurred())
	files, fset := []*ast.File{}, token.NewFileSet()
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			Expect(err).NotTo(HaveOccurred())
			files = append(files, file)
		}
	}
	p, err := doc.NewFromFiles(fset, files, directory)
	Expect(err).NotTo(HaveOccurred())
	names := map[string]bool{}
	add := func(values []*doc.Value, funcs []*doc.Func) {
		for _, value := range values {
			for _, name := range value.Names {
				names[name] = true
			}
		}
		for _, function := range funcs {
			names[function.Name] = true
		}
	}
	add(p.Consts, p.Funcs)
	add(p.Vars, nil)
	for _, t := range p.Types {
		names[t.Name] = true
		add(t.Consts, t.Funcs)
		add(t.Vars, nil)
		for _, method := range t.Methods {
			names[t.Name+"."+method.Name] = true
		}
		ast.Inspect(t.Decl, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if ok {
				for _, name := range field.Names {
					names[t.Name+"."+name.Name] = true
				}
			}
			return !ok
		})
	}
	return names
}

func scenario(e evidence) (parity.Scenario, bool) {
	GinkgoHelper()
	all, err := parity.LoadFile(e.file)
	Expect(err).NotTo(HaveOccurred())
	for _, s := range all {
		if s.Name == e.title {
			return s, true
		}
	}
	return parity.Scenario{}, false
}

// nodeDriver returns the code of each operation of Node's driver, including the helpers that it calls.
func nodeDriver() map[string]string {
	GinkgoHelper()
	const folder = "../interop/node/"
	source := read(folder + "operations.mjs")
	helpers := map[string]string{}
	for _, statement := range cut(source, regexp.MustCompile(`(?m)^(?:const|export|function|async function|import)\b`)) {
		if found := regexp.MustCompile(`^import \{ ([^}]+) \} from '\./([^']+)'`).FindStringSubmatch(statement); found != nil {
			helpers[found[1]] = read(folder + found[2])
		} else if found := regexp.MustCompile(`^(?:const|function|async function) (\w+)`).FindStringSubmatch(statement); found != nil {
			helpers[found[1]] = statement
		}
	}
	Expect(helpers).To(HaveKey("operations"))
	operations := map[string]string{}
	start := regexp.MustCompile(`(?m)^  (\w+): `)
	for _, operation := range cut(helpers["operations"], start) {
		name := start.FindStringSubmatch(operation)[1]
		for helper, text := range helpers {
			if helper != "operations" && regexp.MustCompile(`\b`+helper+`\b`).MatchString(operation) {
				operation += text
			}
		}
		operations[name] = operation
	}
	return operations
}

// cut splits a text before each match and drops the text before the first one.
func cut(text string, before *regexp.Regexp) []string {
	var parts []string
	places := before.FindAllStringIndex(text, -1)
	for i, at := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		parts = append(parts, text[at[0]:end])
	}
	return parts
}

var _ = Describe("The compatibility page", func() {
	var (
		page   []entry
		faults []string
	)
	BeforeEach(func() { page, faults = readPage(), nil })
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }

	It("has a row for every public member of bullmq's classes and options, and no other rows", func() {
		types := typesOn(page)
		offered := askNode(types)
		covered := slices.Clone(types)
		rows := map[string]int{}
		for _, e := range page {
			for _, name := range e.node {
				rows[e.section+"."+name]++
				switch {
				case slices.Contains(classSections, e.section):
					covered = append(covered, name)
					if !slices.Contains(offered.Classes, name) {
						fault("%s: bullmq exports no class %s", e.section, name)
					}
				case e.section != ownSection && offered.Members[e.section][name] == "":
					fault("bullmq has no public %s.%s", e.section, name)
				}
			}
		}
		for name, times := range rows {
			if times > 1 {
				fault("%s has %d rows", name, times)
			}
		}
		for _, class := range offered.Classes {
			if !slices.Contains(covered, class) {
				fault("class %s has neither a section nor a row in %v", class, classSections)
			}
		}
		for _, typeName := range types {
			for member := range offered.Members[typeName] {
				if rows[typeName+"."+member] == 0 {
					fault("%s.%s has no row", typeName, member)
				}
			}
		}
		slices.Sort(faults)
		Expect(faults).To(BeEmpty())
	})

	It("names only identifiers that this SDK has", func() {
		names := exported()
		Expect(names).To(And(HaveKey("Queue.Add"), HaveKey("JobOptions.Delay"), HaveKey("EventAdded"), HaveKey("ErrJobNotFound"), HaveKey("NewQueue")))
		for _, e := range page {
			if len(e.ours) == 0 && !e.lacks && !e.todo {
				fault("%s: neither a name nor —", e)
			}
			for _, name := range e.ours {
				switch {
				case e.todo && names[name]:
					fault("%s: %s exists now; remove the TODO", e, name)
				case !e.todo && !names[name]:
					fault("%s: package bullmq has no %s", e, name)
				}
			}
		}
		Expect(faults).To(BeEmpty())
	})

	It("marks exactly the pending calls with TODO", func() {
		var todo []string
		for _, e := range page {
			if e.todo {
				for _, name := range e.node {
					todo = append(todo, e.section+"."+name)
				}
			}
		}
		Expect(todo).To(ConsistOf(pending))
	})

	It("gives a reason for each missing call and a test for each other, with both libraries if the wire is the same", func() {
		for _, e := range page {
			switch {
			case e.lacks:
				if e.reason == "" || len(e.ours) > 0 || e.wire != "" {
					fault("%s: — needs a reason and nothing else", e)
				}
			case e.wire != "yes" && e.wire != "local":
				fault("%s: the wire must be yes or local, not %q", e, e.wire)
			case e.todo:
			case len(e.shown) == 0:
				fault("%s: no test", e)
			case e.wire == "yes" && !slices.ContainsFunc(e.shown, evidence.runsBoth):
				fault("%s: no test runs both libraries", e)
			}
		}
		Expect(faults).To(BeEmpty())
	})

	It("cites only tests and scenarios that exist", func() {
		known := map[string][]string{}
		for _, e := range page {
			for _, shown := range e.shown {
				if _, err := os.Stat(shown.file); err != nil {
					fault("%s: %v", e, err)
					continue
				}
				if shown.isScenario() {
					if _, there := scenario(shown); !there {
						fault("%s: no scenario %q in %s", e, shown.title, shown.file)
					}
					continue
				}
				if known[shown.file] == nil {
					known[shown.file] = fullTitles(parse(shown.file))
				}
				if shown.title == "" || !slices.Contains(known[shown.file], shown.title) {
					fault("%s: no test with the full title %q in %s", e, shown.title, shown.file)
				}
			}
		}
		Expect(faults).To(BeEmpty())
	})

	It("cites scenarios and test files that use one of the row's calls or options", func() {
		offered, driver := askNode(typesOn(page)), nodeDriver()
		mentions := func(text, start, name, end string) bool {
			return regexp.MustCompile(start + regexp.QuoteMeta(name) + end).MatchString(text)
		}
		for _, e := range page {
			for _, shown := range e.shown {
				switch {
				case shown.isScenario():
					var calls, options strings.Builder
					s, _ := scenario(shown)
					for _, step := range s.Steps {
						calls.WriteString(driver[step.Op])
						options.Write(step.Args)
					}
					isCall := func(name string) bool { return offered.Members[e.section][name] == "call" }
					isOption := strings.Contains(e.section, "Opt") && !slices.ContainsFunc(e.node, isCall)
					makes := func(name string) bool {
						if isOption {
							return mentions(options.String(), `"`, name, `"`)
						}
						return mentions(calls.String(), `\.`, name, `\(`) || mentions(calls.String(), `'`, name, `'`)
					}
					if (isOption || slices.ContainsFunc(e.node, isCall)) && !slices.ContainsFunc(e.node, makes) {
						fault("%s: scenario %q uses none of them", e, shown.title)
					}
				case !shown.runsBoth():
					source := read(shown.file)
					uses := func(name string) bool {
						return mentions(source, `\b`, name[strings.LastIndexByte(name, '.')+1:], `\b`)
					}
					if !slices.ContainsFunc(e.ours, uses) {
						fault("%s: %s mentions none of %v", e, shown.file, e.ours)
					}
				}
			}
		}
		Expect(faults).To(BeEmpty())
	})
})
