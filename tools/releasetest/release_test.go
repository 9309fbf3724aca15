// Package releasetest tries tools/release.sh on a copy of the tree: make release-test.
package releasetest

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestRelease(t *testing.T) {
	if os.Getenv("BULLMQ_RELEASE") == "" {
		t.Skip("it takes a minute or more: run it with make release-test")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "tools/release.sh")
}

const (
	module  = "github.com/17a2ac88/bullmq-go"
	version = "v0.99.0"
)

// released are the modules that have tags, without the root.
var released = []string{"bullmq/bullmqotel", "bullmqprom", "bullmqtest", "dashboard", "cmd/bullmq"}

// run runs a program and returns what it has written to its output and its standard error.
func run(directory string, environment []string, name string, arguments ...string) (string, error) {
	GinkgoHelper()
	command := exec.Command(name, arguments...)
	command.Dir, command.Env = directory, append(os.Environ(), environment...)
	var output bytes.Buffer
	command.Stdout = io.MultiWriter(&output, GinkgoWriter)
	command.Stderr = command.Stdout
	err := command.Run()
	return output.String(), err
}

// must is run for a program that must succeed.
func must(directory string, environment []string, name string, arguments ...string) string {
	GinkgoHelper()
	output, err := run(directory, environment, name, arguments...)
	Expect(err).NotTo(HaveOccurred(), output)
	return output
}

// copyTree returns a repository with the files of this tree, which need not be a repository itself.
func copyTree() string {
	GinkgoHelper()
	tree, err := filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	directory := filepath.Join(GinkgoT().TempDir(), "tree")
	Expect(filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules"}, entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || entry.Name() == ".git": // a directory, a link, or the mark of a worktree
			return nil
		}
		within, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(directory, within)), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(directory, within), text, info.Mode())
	})).To(Succeed())
	git(directory, "init", "--quiet", "--initial-branch", "main")
	git(directory, "config", "user.name", "Releaser")
	git(directory, "config", "user.email", "releaser@example.org")
	git(directory, "add", "--all")
	git(directory, "commit", "--quiet", "--message", "Tree")
	return directory
}

func git(directory string, arguments ...string) string {
	GinkgoHelper()
	return strings.TrimSpace(must(directory, nil, "git", arguments...))
}

// cache returns the environment of a go command with a module cache of its own, so that the
// release of the test gets into no other. Packages are built as in the Dockerfile, whose build
// cache they share.
func cache() []string {
	GinkgoHelper()
	directory := filepath.Join(GinkgoT().TempDir(), "modules")
	DeferCleanup(func() {
		_, _ = run(".", []string{"GOMODCACHE=" + directory}, "go", "clean", "-modcache")
	})
	return []string{"GOMODCACHE=" + directory, "GOWORK=off", "GOTOOLCHAIN=local", "GOSUMDB=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0"}
}

// others is where modules of others come from: the module cache of this machine, then as usual.
func others() string {
	GinkgoHelper()
	values := strings.Fields(must(".", nil, "go", "env", "GOMODCACHE", "GOPROXY"))
	return "file://" + filepath.ToSlash(values[0]) + "/cache/download," + values[1]
}

// serve returns the address of a proxy that has the tagged modules of a repository.
func serve(repository string) string {
	GinkgoHelper()
	own := cache()
	environment := append(slices.Clone(own), "GOPROXY="+others(), "GOPRIVATE="+module+","+module+"/*",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+repository+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+module)
	paths := []string{module + "@" + version}
	for _, path := range released {
		paths = append(paths, module+"/"+path+"@"+version)
	}
	must(GinkgoT().TempDir(), environment, "go", append([]string{"mod", "download"}, paths...)...)
	return "file://" + strings.TrimPrefix(own[0], "GOMODCACHE=") + "/cache/download"
}

var _ = Describe("A release that the script has made", Ordered, func() {
	var tree, before, proxy string
	BeforeAll(func() {
		tree = copyTree()
		before = git(tree, "rev-parse", "HEAD")
		output := must(tree, nil, "tools/release.sh", strings.TrimPrefix(version, "v"))
		Expect(output).To(ContainSubstring("git push --atomic origin main " + version + " bullmq/bullmqotel/" + version))
		proxy = serve(tree)
	})

	It("has all tags at one commit, after which the tree is as before", func() {
		tags := []string{version}
		for _, path := range released {
			tags = append(tags, path+"/"+version)
		}
		Expect(strings.Fields(git(tree, "tag", "--points-at", "HEAD~1"))).To(ConsistOf(tags))
		Expect(git(tree, "rev-parse", "HEAD~2")).To(Equal(before))
		Expect(git(tree, "diff", "--name-only", "HEAD~2", "HEAD")).To(Equal("CHANGELOG.md"))
		Expect(git(tree, "status", "--porcelain")).To(BeEmpty())
		Expect(git(tree, "show", "HEAD~1:CHANGELOG.md")).To(And(ContainSubstring("\n## "+version+" ("), Not(ContainSubstring("## Unreleased"))))
		Expect(git(tree, "show", "HEAD:CHANGELOG.md")).To(MatchRegexp(`\n## Unreleased\n\n## ` + version + ` \(\d{4}-\d\d-\d\d\)\n`))
	})

	It("has modules that need no change, and no directory", func() {
		checkout := filepath.Join(GinkgoT().TempDir(), "checkout")
		git(tree, "worktree", "add", "--quiet", "--detach", checkout, version)
		environment := append(cache(), "GOPROXY="+proxy+","+others())
		for _, path := range released {
			Expect(git(tree, "show", version+":"+path+"/go.mod")).NotTo(ContainSubstring("=>"), path)
			Expect(must(filepath.Join(checkout, path), environment, "go", "mod", "tidy", "-diff")).NotTo(ContainSubstring("+++"), path)
		}
		must(checkout, []string{"GOFLAGS=", "GOWORK="}, "go", "list", "./cmd/bullmq", "./examples/shop") // the workspace
	})

	It("installs the command, and is the latest version of each module", func() {
		environment := append(cache(), "GOPROXY="+proxy+","+others())
		directory := GinkgoT().TempDir()
		must(directory, append(environment, "GOBIN="+directory), "go", "install", module+"/cmd/bullmq@latest")
		Expect(must(directory, nil, "./bullmq", "--version")).To(Equal("bullmq version " + version + "\n"))
		for _, path := range append(released, "") {
			path = strings.TrimSuffix(module+"/"+path, "/")
			Expect(must(directory, environment, "go", "list", "-m", path+"@latest")).To(HaveSuffix(path + " " + version + "\n"))
		}
	})

	It("gives users of the SDK no module that only its other modules need", func() {
		directory := GinkgoT().TempDir()
		environment := append(cache(), "GOPROXY="+proxy+","+others())
		Expect(os.WriteFile(filepath.Join(directory, "main.go"), []byte("package main\n\nimport _ \""+module+"/bullmq\"\n\nfunc main() {}\n"), 0o600)).To(Succeed())
		must(directory, environment, "go", "mod", "init", "example.org/user")
		must(directory, environment, "go", "get", module+"/bullmq@"+version)
		must(directory, environment, "go", "mod", "tidy")
		must(directory, environment, "go", "build", "-o", "user", ".")
		used := map[string]bool{}
		for line := range strings.Lines(must(directory, nil, "go", "version", "-m", "user")) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "dep" {
				used[fields[1]] = true
			}
		}
		Expect(slices.Collect(maps.Keys(used))).To(ConsistOf(module, "github.com/google/uuid", "github.com/redis/rueidis", "github.com/rs/zerolog",
			"github.com/mattn/go-colorable", "github.com/mattn/go-isatty", "golang.org/x/sys"))
	})
})

var _ = Describe("The script for releases", func() {
	It("refuses a tree or a version that can't be released, and changes nothing", func() {
		tree := copyTree()
		refused := func(version, text string) {
			GinkgoHelper()
			before := git(tree, "show-ref") + git(tree, "status", "--porcelain")
			output, err := run(tree, nil, "tools/release.sh", version)
			Expect(err).To(HaveOccurred())
			Expect(output).To(ContainSubstring(text))
			Expect(git(tree, "show-ref") + git(tree, "status", "--porcelain")).To(Equal(before))
		}
		for _, version := range []string{"", "1", "v1.2", "1.2.3.4", "01.2.3", "1.2.3 4"} {
			refused(version, "give a version such as")
		}
		refused("2.0.0", "end with /v2")
		git(tree, "tag", "dashboard/v0.1.0")
		refused("0.1.0", "the tag dashboard/v0.1.0 exists")
		Expect(os.WriteFile(filepath.Join(tree, "new"), nil, 0o600)).To(Succeed())
		refused("0.2.0", "not committed")
		Expect(os.Remove(filepath.Join(tree, "new"))).To(Succeed())
		git(tree, "checkout", "--quiet", "--detach")
		refused("0.2.0", "check out the branch")
		git(tree, "checkout", "--quiet", "main")
		Expect(os.WriteFile(filepath.Join(tree, "CHANGELOG.md"), []byte("# Changelog\n\n## Unreleased\n\n## v0.1.0\n\n- All.\n"), 0o600)).To(Succeed())
		git(tree, "commit", "--quiet", "--all", "--message", "Changelog")
		refused("0.2.0", "nothing under")
	})
})
