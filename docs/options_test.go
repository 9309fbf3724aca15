package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// optionDocs returns the comments of a struct's fields, each as one line.
func optionDocs(path, name string) map[string]string {
	GinkgoHelper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	Expect(err).NotTo(HaveOccurred())
	docs := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			for _, option := range field.Names {
				docs[option.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
		}
		return false
	})
	Expect(docs).NotTo(BeEmpty())
	return docs
}

var _ = It("Options that WorkerOptions and FetcherOptions share have the same comments", func() {
	differ := []string{"BatchSize", "MaxStartedAttempts"} // a Fetcher fetches one job at a time, and runs none
	worker, shared := optionDocs("../bullmq/worker_options.go", "WorkerOptions"), 0
	for option, doc := range optionDocs("../bullmq/fetcher.go", "FetcherOptions") {
		if of, ok := worker[option]; ok && !slices.Contains(differ, option) {
			shared++
			Expect(doc).To(Equal(of), option)
		}
	}
	Expect(shared).To(BeNumerically(">", 15))
})
