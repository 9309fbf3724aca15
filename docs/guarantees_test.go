package docs_test

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const guaranteesPage = "guarantees.md"

var _ = Describe("The page of guarantees", func() {
	It("names tests that are there", func() {
		// A file in backquotes and the beginning of a title in it, up to the end of the sentence, of the cell or of the name.
		cited := regexp.MustCompile("`((?:chaos/|tests/)?\\w+_test\\.go)` ([^|;`\n]+)").FindAllStringSubmatch(read(guaranteesPage), -1)
		Expect(len(cited)).To(BeNumerically(">", 25))
		for _, c := range cited {
			path, title := "../bullmq/"+c[1], strings.TrimRight(c[2], ". ")
			if strings.Contains(c[1], "/") {
				path = "../interop/" + c[1]
			}
			titles := read(path)
			// What follows the title in a sentence is not part of it.
			for !strings.Contains(titles, title) && strings.Contains(title, " ") {
				title = strings.TrimRight(title[:strings.LastIndex(title, " ")], ",.: ")
			}
			Expect(len(title)).To(BeNumerically(">=", 12), "%s has no test %q", path, c[2])
		}
	})

	It("names every error and option that it promises by", func() {
		page := read(guaranteesPage)
		for _, word := range []string{"ErrMaybeAdded", "ErrLockLost", "ErrShutdown", "UnfinishedError", "AddWait", "OnHealth", "ShutdownTimeout"} {
			Expect(page).To(ContainSubstring(word))
		}
	})
})
