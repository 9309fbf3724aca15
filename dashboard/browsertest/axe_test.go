package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// axe returns the source of axe-core, which finds what keeps people with disabilities from
// using a page.
var axe = sync.OnceValues(func() (string, error) {
	installation, err := nodeprocess.Find()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(installation.Directory, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
})

// axeRules are the rules of axe for each of the first views: all, then those whose findings
// depend on the colours, and those that depend on the width.
var axeRules = []string{"undefined", "['color-contrast', 'link-in-text-block']", "['scrollable-region-focusable', 'target-size']"}

// findings returns the serious and critical findings of axe on a page.
func findings(t *tab, rules string) []string {
	GinkgoHelper()
	source, err := axe()
	Expect(err).NotTo(HaveOccurred())
	if !eval[bool](t, "!!window.axe") {
		_ = eval[bool](t, source+"\n;true")
	}
	type finding struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	found := eval[[]finding](t, `axe.run(document, { resultTypes: ['violations'], runOnly: `+rules+` }).then(result => result.violations
		.filter(v => ['serious', 'critical'].includes(v.impact))
		.map(v => ({ ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 5).map(n => ({ HTML: n.html.slice(0, 300), FailureSummary: n.failureSummary })) })))`)
	var texts []string
	for _, f := range found {
		text := fmt.Sprintf("%s: %s: %s", f.Impact, f.ID, f.Help)
		for _, node := range f.Nodes {
			text += fmt.Sprintf("\n  %s\n  %s", node.HTML, node.FailureSummary)
		}
		texts = append(texts, text)
	}
	return texts
}
