package docs_test

import (
	"os"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The page of workers", func() {
	It("lists each field of log lines", func() {
		source, err := os.ReadFile("../bullmq/logger.go")
		Expect(err).NotTo(HaveOccurred())
		page, err := os.ReadFile("workers.md")
		Expect(err).NotTo(HaveOccurred())
		fields := regexp.MustCompile(`(?m)^\tlog\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
		Expect(fields).NotTo(BeEmpty())
		for _, field := range fields {
			Expect(string(page)).To(ContainSubstring("`"+field[1]+"`"), field[1])
		}
	})
})
