package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
)

// goCommand runs the go command in a folder and returns what it prints.
func goCommand(folder string, environment []string, arguments ...string) string {
	GinkgoHelper()
	command := exec.Command("go", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), environment...)
	session, err := gexec.Start(command, nil, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	Eventually(session, "60s").Should(gexec.Exit(0))
	return string(session.Out.Contents())
}

var _ = Describe("A program that imports the SDK", func() {
	It("downloads only the Redis client, UUIDs, the logger and their dependencies", Label("slow"), func() {
		root, err := filepath.Abs("..")
		Expect(err).NotTo(HaveOccurred())
		program, modules := GinkgoT().TempDir(), GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(program, "go.mod"), []byte("module program\n\ngo 1.26.0\n\n"+
			"require "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n"), 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(program, "main.go"), []byte("package main\n\n"+
			"import _ \""+module+"/bullmq\"\n\nfunc main() {}\n"), 0o600)).To(Succeed())

		// The workspace may select newer versions than go.mod, so the cache may lack those of go.mod.
		goCommand(root, []string{"GOWORK=off"}, "list", "-deps", "./bullmq")

		// The program has an empty module cache and uses this machine's cache as its proxy.
		cache := strings.TrimSpace(goCommand(root, nil, "env", "GOMODCACHE"))
		goCommand(program, []string{
			"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off", "GONOPROXY=none",
			"GOMODCACHE=" + modules, "GOPROXY=file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")),
		}, "list", "-deps", ".")

		archives := filepath.Join(modules, "cache", "download")
		var downloaded []string
		Expect(filepath.WalkDir(archives, func(path string, _ os.DirEntry, err error) error {
			if strings.HasSuffix(path, ".zip") {
				name, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(archives)+"/"), "/@v/")
				downloaded = append(downloaded, name)
			}
			return err
		})).To(Succeed())
		slices.Sort(downloaded)
		Expect(downloaded).To(Equal([]string{
			"github.com/google/uuid",
			"github.com/mattn/go-colorable", // for zerolog
			"github.com/mattn/go-isatty",    // for zerolog
			"github.com/redis/rueidis",
			"github.com/rs/zerolog",
			"golang.org/x/sys", // for rueidis and zerolog
		}))
	})
})
