package bullmqhttp_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// runNode runs a script of testdata with a version of BullMQ until the spec ends.
func runNode(script, version string, arguments ...string) *nodeprocess.Process {
	GinkgoHelper()
	node, err := nodeprocess.Find()
	Expect(err).NotTo(HaveOccurred())
	directory := GinkgoT().TempDir()
	Expect(os.CopyFS(directory, os.DirFS("testdata"))).To(Succeed())
	Expect(os.Mkdir(filepath.Join(directory, "node_modules"), 0o755)).To(Succeed())
	Expect(os.Symlink(filepath.Join(node.Directory, "node_modules", version), filepath.Join(directory, "node_modules", "bullmq"))).To(Succeed())
	command := exec.Command(node.Node, append([]string{filepath.Join(directory, script)}, arguments...)...)
	command.Env = append(os.Environ(), "REDIS_PORT="+strconv.Itoa(redis.Port()))
	process, err := nodeprocess.Run(script, command)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { process.Stop() })
	return process
}

var _ = DescribeTable("Node takes a route over, and has its requests run by a handler in Go:", Label("slow"), func(version string) {
	root, err := os.OpenRoot(GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
	defer root.Close()
	s, other := start(&bullmqhttp.Options{Bodies: directory{root}, StoreAbove: 20}, bullmqhttp.Route{}, nil), start(nil, bullmqhttp.Route{}, nil)
	other.work(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"path":"`+r.URL.Path+`","q":"`+r.FormValue("q")+`","body":`+string(body)+`}`)
	})

	process := runNode("node.mjs", version, s.queue.Name(), other.queue.Name(), root.Name())
	var line nodeprocess.Line
	Eventually(process.Lines(), "30s").Should(Receive(&line), process.Stderr())
	Expect(line.String()).To(MatchJSON(`{"status":200,"contentType":"application/json","body":{"path":"/reports/9","q":"ä","body":{"year":2025}}}`))

	a := s.do("POST", "/reports/7?q=1&q=2", `{"year":2026}`, "Content-Type", "application/json", "Accept", "text/plain", "Prefer", "wait=25")
	Expect(a.status).To(Equal(http.StatusCreated), a.body)
	Expect(a.header.Get("ETag")).To(Equal(`"1"`))
	Expect(a.body).To(MatchJSON(`{"method":"POST","params":{"id":"7"},"query":{"q":["1","2"]},"headers":{"accept":"text/plain"},"body":{"year":2026},"contentType":"application/json"}`))

	a = s.do("POST", "/reports/7", "a text that the store keeps", "Content-Type", "text/plain", "Prefer", "wait=25")
	Expect(a.status).To(Equal(http.StatusOK), a.body)
	Expect(a.body).To(Equal("A TEXT THAT THE STORE KEEPS"))
},
	Entry("bullmq 6", "bullmq"),
	Entry("bullmq 5", "bullmq5"),
)
