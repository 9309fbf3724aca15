package main_test

import (
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// keyed returns variables of the environment with a key.
func keyed(variables ...string) []string {
	return append([]string{"BULLMQPUSH_KEYS=" + bullmqpush.NewKey()}, variables...)
}

var _ = It("The command exits with 2 after an error in its flags, its variables or its files, without other output", func() {
	for arguments, want := range map[string]string{
		"-que":                      "flag provided but not defined: -que",
		"-timeout=1":                `-timeout "1": write a duration with its unit, such as 500ms, 30s or 2m`,
		"-queue=a=http://127.0.0.1": "-queue a: http://127.0.0.1: it has no TLS; use https, or set -allow-http",
		"-keys-file=no-such-file":   "both -keys-file and BULLMQPUSH_KEYS are set; keep one of them",
	} {
		session := start(keyed(), arguments)
		Eventually(session).Should(gexec.Exit(2))
		Expect(string(session.Err.Contents())).To(Equal("bullmqpush: " + want + "\nbullmqpush -help lists all flags.\n"))
		Expect(session.Out.Contents()).To(BeEmpty())
	}
})

var _ = It("The command exits with 1 and names the flag if Redis can't be reached", func() {
	session := start(keyed(), "-queue", "a=https://example.com", "-redis", "redis://127.0.0.1:1")
	Eventually(session).Should(gexec.Exit(1))
	Expect(string(session.Err.Contents())).To(And(HavePrefix("bullmqpush: bullmq: connect"), ContainSubstring("127.0.0.1:1"),
		HaveSuffix("(-redis, BULLMQPUSH_REDIS or -redis-file sets the address)\n")))
})

var _ = Describe("The command prints", func() {
	output := func(argument string) string {
		GinkgoHelper()
		session := start(nil, argument)
		Eventually(session).Should(gexec.Exit(0))
		Expect(session.Err.Contents()).To(BeEmpty())
		return string(session.Out.Contents())
	}

	It("its version", func() {
		Expect(output("-version")).To(MatchRegexp(`^bullmqpush \S.*, go1\.\d+.*\n$`))
	})

	It("a new key", func() {
		key := strings.TrimSpace(output("-new-key"))
		Expect(key).NotTo(Equal(strings.TrimSpace(output("--new-key"))))
		_, err := bullmqpush.NewClient(&bullmqpush.Options{Keys: []string{key}})
		Expect(err).NotTo(HaveOccurred())
	})

	It("its help, with each flag, its variable and its default as in docs/push.md", func() {
		help := output("--help")
		Expect(output("-h")).To(Equal(help))
		page, err := os.ReadFile("../../docs/push.md")
		Expect(err).NotTo(HaveOccurred())
		_, section, _ := strings.Cut(string(page), "## The command\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var documented []string
		for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*)\\|").FindAllStringSubmatch(section+"\n", -1) {
			documented = append(documented, row[1]+": "+strings.Trim(row[2], " `"))
		}

		var printed []string
		_, flags, _ := strings.Cut(help, "\nQueues:\n")
		flags, _, _ = strings.Cut(flags, "\nOther calls:\n")
		for _, entry := range regexp.MustCompile(`(?m)^  (-[a-z-]+|BULLMQPUSH_[A-Z_]+).*\n((?:        .*\n)+)`).FindAllStringSubmatch(flags, -1) {
			name, description := entry[1], strings.Join(strings.Fields(entry[2]), " ")
			if strings.HasPrefix(name, "-") {
				Expect(description).To(HaveSuffix("[BULLMQPUSH_" + strings.ToUpper(strings.ReplaceAll(name[1:], "-", "_")) + "]"))
			}
			standard := regexp.MustCompile(`Defaults to (.*?)\.(?: |$)`).FindStringSubmatch(description + " ")
			printed = append(printed, name+": "+strings.Join(standard[min(1, len(standard)):], ""))
		}
		Expect(len(printed)).To(BeNumerically(">", 20))
		Expect(documented).To(Equal(printed))
		for line := range strings.Lines(flags) {
			Expect(len([]rune(line))).To(BeNumerically("<=", 81), line)
		}
	})
})
