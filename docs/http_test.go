package docs_test

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The page of HTTP requests as jobs", func() {
	It("lists every call of a manager", func() {
		page := read("http.md")
		calls := regexp.MustCompile(`(?m)^//\t(GET|POST|DELETE) +(/manage[\w/{}]+)`).FindAllStringSubmatch(read("../bullmqhttp/manager_http.go"), -1)
		Expect(calls).To(HaveLen(16))
		for _, call := range calls {
			Expect(page).To(ContainSubstring("\n| `" + call[1] + " " + call[2] + "` | `Manager."))
		}
	})

	It("lists every option of a manager", func() {
		page := read("http.md")
		for option := range optionDocs("../bullmqhttp/manager.go", "ManagerOptions") {
			Expect(page).To(ContainSubstring("\n| `" + option + "` | "))
		}
	})

	It("lists every code, and the variable of each that has one", func() {
		page := read("http.md")
		_, manager, _ := strings.Cut(page, "\n### Codes of a manager\n")
		of := map[string]string{}
		for _, file := range []string{"problem.go", "manager_errors.go"} {
			for _, code := range regexp.MustCompile(`(?m)^\t(Code\w+) += "([A-Z_]+)"`).FindAllStringSubmatch(read("../bullmqhttp/"+file), -1) {
				of[code[1]] = code[2]
				Expect(page).To(ContainSubstring("`" + code[2] + "`"))
			}
		}
		Expect(len(of)).To(BeNumerically(">", 20))
		variables := regexp.MustCompile(`(?m)^\t(Err\w+) +error = &Problem\{Code: (\w+)\}`).FindAllStringSubmatch(read("../bullmqhttp/manager_errors.go"), -1)
		Expect(len(variables)).To(BeNumerically(">", 10))
		for _, variable := range variables {
			Expect(manager).To(ContainSubstring(" | `" + of[variable[2]] + "` | `" + variable[1] + "` | "))
		}
	})
})

var _ = Describe("The page that compares HTTP jobs", func() {
	It("cites each test by its file and full title", func() {
		cited := citedTests(read("http-jobs.md"))
		Expect(len(cited)).To(BeNumerically(">", 5))
		for file, titles := range cited {
			known := fullTitles(parse(testPath(file)))
			for _, title := range titles {
				Expect(known).To(ContainElement(title), file)
			}
		}
	})

	It("names only functions, types, fields and methods of this module that exist", func() {
		known, found := readAPI(), 0
		for line := range strings.Lines(read("http-jobs.md")) {
			cells := strings.Split(line, "|")
			if len(cells) != 5 {
				continue
			}
			for _, code := range spans(cells[2]) { // the first column is of AsyncEndpoints
				name, exists := known.check(code)
				Expect(exists).To(BeTrue(), name)
				if name != "" {
					found++
				}
			}
		}
		Expect(found).To(BeNumerically(">", 50))
	})
})
