package docs_test

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = It("dialect.go says where each difference between BullMQ 5 and 6 of the wire protocol is", func() {
	var documented, located []string
	for _, line := range strings.Split(section(read(protocolPage), "### Differences"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) > 1 && !strings.HasPrefix(cells[1], "---") && strings.TrimSpace(cells[1]) != "topic" {
			documented = append(documented, strings.ReplaceAll(strings.TrimSpace(cells[1]), "`", ""))
		}
	}
	row := regexp.MustCompile(`(?m)^//\t(.+?)  +\S`)
	for _, found := range row.FindAllStringSubmatch(read("../bullmq/dialect.go"), -1) {
		located = append(located, found[1])
	}
	Expect(len(documented)).To(BeNumerically(">", 10))
	Expect(located).To(Equal(documented))
})
