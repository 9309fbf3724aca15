package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The packaging of the command", func() {
	It("builds a static program by the command of the Dockerfile", Label("slow"), func() {
		file, err := os.ReadFile("../../Dockerfile")
		Expect(err).NotTo(HaveOccurred())
		build := regexp.MustCompile(`(?m)^RUN (cd cmd/bullmq && CGO_ENABLED=0 .* go build .*)$`).FindSubmatch(file)
		Expect(build).To(HaveLen(2))
		program := filepath.Join(GinkgoT().TempDir(), "bullmq")
		Expect(string(build[1])).To(HaveSuffix("-o /out/bullmq ."))
		command := exec.Command("sh", "-c", strings.Replace(string(build[1]), "/out/bullmq", program, 1))
		command.Dir = "../.."
		command.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION=1.2.3")
		output, err := command.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))

		run := func(arguments ...string) string {
			GinkgoHelper()
			s := open()
			s.queue("orders")
			command := exec.Command(program, arguments...)
			command.Env = []string{"REDIS_URL=" + s.url} // nothing else, as in the image
			output, err := command.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(output))
			return string(output)
		}
		Expect(run("--version")).To(Equal("bullmq version 1.2.3\n"))
		Expect(run("queues")).To(ContainSubstring(`"name":"orders"`))
		if runtime.GOOS == "linux" {
			binary, err := elf.Open(program)
			Expect(err).NotTo(HaveOccurred())
			defer binary.Close()
			libraries, err := binary.ImportedLibraries()
			Expect(err).NotTo(HaveOccurred())
			Expect(libraries).To(BeEmpty())
		}
		Expect(string(file)).To(MatchRegexp(`(?s)FROM \S*distroless/static\S*:nonroot\n.*USER nonroot`))
	})

	It("is the same in the Dockerfile and for the archives", func() {
		docker, err := os.ReadFile("../../Dockerfile")
		Expect(err).NotTo(HaveOccurred())
		archives, err := os.ReadFile("../../.goreleaser.yaml")
		Expect(err).NotTo(HaveOccurred())
		for _, flag := range []string{"-trimpath", "-buildvcs=false", "-s -w -X main.release="} {
			Expect(string(docker)).To(ContainSubstring(flag))
			Expect(string(archives)).To(ContainSubstring(flag))
		}
	})

	It("has completion scripts that shells can read", func() {
		script := filepath.Join(GinkgoT().TempDir(), "script")
		for shell, check := range map[string][]string{
			"bash": {"bash", "-c", "source '" + script + "' && complete -p bullmq"}, "zsh": {"zsh", "-n", script}, "fish": {"fish", "-n", script},
		} {
			text, err := exec.Command(os.Getenv(programVariable), "completion", shell).Output()
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(ContainSubstring("bullmq"))
			if _, err := exec.LookPath(shell); err != nil {
				continue
			}
			Expect(os.WriteFile(script, text, 0o600)).To(Succeed())
			output, err := exec.Command(check[0], check[1:]...).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s: %s", shell, output)
		}
	})
})
