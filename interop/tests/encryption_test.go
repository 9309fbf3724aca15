package tests

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/middleware"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

// encryptionCode writes the JavaScript of docs/handlers.md that encrypts and decrypts to a file and returns its path.
func encryptionCode() string {
	GinkgoHelper()
	root, err := nodeprocess.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile(filepath.Join(root, "docs", "handlers.md"))
	Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?ms)^```js\n([^`]*node:crypto.*?)^```$").FindSubmatch(page)
	Expect(block).To(HaveLen(2))
	file := filepath.Join(GinkgoT().TempDir(), "encryption.mjs")
	Expect(os.WriteFile(file, block[1], 0o600)).To(Succeed())
	return file
}

var _ = DescribeTable("Encrypted data is read in both languages, by the code of the docs, with", func(line string, dialect bullmq.Dialect) {
	type mail struct {
		To   string `json:"to"`
		Text string `json:"text"`
	}
	type sent struct {
		To string `json:"to"`
	}
	welcome := bullmq.Define[mail, sent]("welcome")
	letter := mail{To: "ada@example.org", Text: "Grüße <b>& 💌</b>"}
	key := bytes.Repeat([]byte{7, 9}, 16)
	encryption, err := middleware.NewEncryption("k1", map[string][]byte{"k1": key})
	Expect(err).NotTo(HaveOccurred())
	forNode, forGo := newQueueName(), newQueueName()
	queue, err := bullmq.NewQueue(soon(), forNode, &bullmq.QueueOptions{
		URL: server.URL(), Dialect: dialect, Middleware: []bullmq.AddMiddleware{encryption.Add},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	process := startNode("encryption.mjs", "-queue", forNode, "-to", forGo, "-bullmq", line,
		"-codec", encryptionCode(), "-kid", "k1", "-key", base64.StdEncoding.EncodeToString(key))

	By("a job that Go encrypts and Node decrypts")
	job, err := welcome.Add(soon(), queue, letter, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(stored(forNode, job.ID, "data")).To(And(HavePrefix(`{"enc":1,"kid":"k1",`), Not(ContainSubstring("ada"))))
	Expect(welcome.Wait(soon(), queue, job.ID)).To(Equal(sent{To: letter.To}))
	var ran struct {
		Event, Name string
		Data        mail
	}
	_, err = process.WaitFor(soon(), func(line nodeprocess.Line) bool { return line.Decode(&ran) == nil && ran.Event == "ran" })
	Expect(err).NotTo(HaveOccurred())
	Expect(ran.Data).To(Equal(letter))

	By("a job that Node encrypts and Go decrypts")
	got := make(chan mail, 1)
	mux := bullmq.NewMux()
	mux.Use(encryption.Handle)
	bullmq.Handle(mux, welcome, func(_ context.Context, _ *bullmq.Job, m mail) (sent, error) {
		got <- m
		return sent{To: m.To}, nil
	})
	worker, err := bullmq.NewWorker(soon(), forGo, mux.ServeJob, &bullmq.WorkerOptions{URL: server.URL(), Dialect: dialect})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(worker.Close)
	go func() { _ = worker.Run(context.Background()) }()
	Expect(process.Send(object{"name": "welcome", "data": letter})).To(Succeed())
	Eventually(got).Should(Receive(Equal(letter)))
	Expect(stored(forGo, "1", "data")).To(And(HavePrefix(`{"enc":1,"kid":"k1",`), Not(ContainSubstring("ada"))))
	Expect(process.CloseInput()).To(Succeed())
	Eventually(process.Done()).Should(BeClosed())
},
	Entry("BullMQ 6", "6", bullmq.V6),
	Entry("BullMQ 5", "5", bullmq.V5),
)
