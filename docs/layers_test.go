package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const module = "github.com/17a2ac88/bullmq-go"

// layers are the layers of the architecture, the lowest first. A package belongs to the layer with the
// longest matching path prefix.
var layers = []struct {
	paths []string
	uses  []string // modules that only this and higher layers may import
}{
	{paths: []string{"bullmq/internal", "internal/cron", "internal/cronwords", "internal/jsontext", "internal/testjob"}},
	{paths: []string{"bullmq/scripts", "bullmq/internal/redisconn", "bullmq/internal/redisstore"}, uses: []string{"github.com/redis/rueidis"}},
	{paths: []string{"bullmq", "bullmqpush"}, uses: []string{"github.com/google/uuid", "github.com/rs/zerolog"}},
	{paths: []string{"bullmq/bullmqotel"}, uses: []string{"go.opentelemetry.io/otel"}},
	{paths: []string{"bullmqprom", "bullmqhttp", "dashboard"}, uses: []string{"github.com/prometheus/client_golang"}},
	{paths: []string{"internal/testkit", "bullmq/internal/backendtest", "bullmqtest"}, uses: []string{"github.com/onsi", "github.com/alicebob/miniredis"}},
	{paths: []string{"", "bench", "examples", "interop", "docs", "bullmqprom/example", "dashboard/browsertest", "dashboard/example"}},
}

// layerOf returns the layer of a package, given by its path below the module.
func layerOf(pkg string) int {
	best, layer := -1, -1
	for i, l := range layers {
		for _, path := range l.paths {
			if (pkg == path || path == "" || strings.HasPrefix(pkg, path+"/")) && len(path) > best {
				best, layer = len(path), i
			}
		}
	}
	return layer
}

// layerOfImport returns the layer of an import, or -1 for the standard library.
func layerOfImport(path string) int {
	if path == module || strings.HasPrefix(path, module+"/") {
		return layerOf(strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
	}
	for i, l := range layers {
		for _, used := range l.uses {
			if strings.HasPrefix(path, used) {
				return i
			}
		}
	}
	if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
		return len(layers) - 1
	}
	return -1
}

var _ = Describe("The layers of the architecture", func() {
	It("import only the same or lower layers", func() {
		seen := map[int]int{}
		Expect(filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			pkg := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(filepath.ToSlash(path), "../")))
			if pkg == "." {
				pkg = ""
			}
			layer := layerOf(pkg)
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				Expect(layerOfImport(imported)).To(BeNumerically("<=", layer), "%s imports %s, which belongs to a higher layer", path, imported)
			}
			seen[layer]++
			return nil
		})).To(Succeed())
		for layer := range layers {
			Expect(seen[layer]).NotTo(BeZero(), "no file was found in layer %v", layers[layer].paths)
		}
	})

	It("use zerolog only in logger.go", func() {
		files, err := filepath.Glob("../bullmq/*.go")
		Expect(err).NotTo(HaveOccurred())
		var users []string
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			Expect(err).NotTo(HaveOccurred())
			for _, spec := range file.Imports {
				if spec.Path.Value == `"github.com/rs/zerolog"` {
					users = append(users, filepath.Base(path))
				}
			}
		}
		Expect(users).To(Equal([]string{"logger.go"}))
	})

	// They make the connections and the stores.
	It("keep Redis out of package bullmq, except in two files", func() {
		redis := []string{"github.com/redis/rueidis", module + "/bullmq/scripts", module + "/bullmq/internal/redisconn", module + "/bullmq/internal/redisstore"}
		var found []string
		files, err := filepath.Glob("../bullmq/*.go")
		Expect(err).NotTo(HaveOccurred())
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			Expect(err).NotTo(HaveOccurred())
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				Expect(err).NotTo(HaveOccurred())
				if slices.Contains(redis, imported) {
					found = append(found, filepath.Base(path))
				}
			}
		}
		slices.Sort(found)
		Expect(slices.Compact(found)).To(Equal([]string{"connection.go", "core.go"}))
	})

	DescribeTable("are determined by the paths of packages and modules:", func(path string, layer int) {
		Expect(layerOfImport(path)).To(Equal(layer))
	},
		Entry("the standard library", "context", -1),
		Entry("an internal package", module+"/bullmq/internal/wire", 0),
		Entry("the scripts", module+"/bullmq/scripts", 1),
		Entry("rueidis", "github.com/redis/rueidis", 1),
		Entry("the package itself", module+"/bullmq", 2),
		Entry("telemetry", "go.opentelemetry.io/otel/metric", 3),
		Entry("Prometheus", "github.com/prometheus/client_golang/prometheus", 4),
		Entry("a tool of the tests", module+"/internal/testkit/leaks", 5),
		Entry("a program", module+"/bench/contender", 6),
		Entry("an unknown module", "example.org/new", 6),
	)
})
