package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// managed is a Manager, its HTTP server, and a client. The header Worker has the name of a worker.
type managed struct {
	*service
	m *bullmqhttp.Manager
}

// manage starts a Manager. It sets the address, and a lock of 20 seconds unless the options have another.
func manage(o bullmqhttp.ManagerOptions) *managed {
	GinkgoHelper()
	if o.Fetcher.LockDuration == 0 {
		o.Fetcher.LockDuration = 20 * time.Second
	}
	if o.PollInterval == 0 {
		o.PollInterval = 10 * time.Millisecond
	}
	return manageAs(fmt.Sprint("manager-", queues.Add(1)), o)
}

func manageAs(queue string, o bullmqhttp.ManagerOptions) *managed {
	GinkgoHelper()
	if o.Fetcher.URL == "" {
		o.Fetcher.URL = redis.URL()
	}
	if o.Authenticate == nil {
		o.Authenticate = func(r *http.Request) (string, error) {
			if r.Header.Get("Worker") == "" {
				return "", &bullmqhttp.Problem{Status: http.StatusUnauthorized, Code: "UNAUTHENTICATED"}
			}
			return r.Header.Get("Worker"), nil
		}
	}
	m, err := bullmqhttp.NewManager(context.Background(), queue, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(m.Close)
	web := httptest.NewServer(m)
	DeferCleanup(web.Close)
	transport := &http.Transport{}
	DeferCleanup(transport.CloseIdleConnections)
	return &managed{&service{queue: m.Queue(), url: web.URL, client: &http.Client{Transport: transport}}, m}
}

// add submits a job.
func (m *managed) add(data any, o *bullmq.JobOptions) *bullmqhttp.JobInfo {
	GinkgoHelper()
	job, err := m.m.Submit(context.Background(), "report", data, o)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// claim claims a job, which must be ready within some seconds.
func (m *managed) claim(worker string) *bullmqhttp.Claim {
	GinkgoHelper()
	claims, err := m.m.Claim(context.Background(), worker, 1, 20*time.Second)
	Expect(err).NotTo(HaveOccurred())
	Expect(claims).To(HaveLen(1))
	return claims[0]
}

// none claims nothing.
func (m *managed) none(worker string) {
	GinkgoHelper()
	claims, err := m.m.Claim(context.Background(), worker, 1, 0)
	Expect(err).NotTo(HaveOccurred())
	Expect(claims).To(BeEmpty())
}

func (m *managed) get(id string) *bullmqhttp.JobInfo {
	GinkgoHelper()
	job, err := m.m.Get(context.Background(), id)
	Expect(err).NotTo(HaveOccurred())
	return job
}

// codeOf returns the code of an error.
func codeOf(err error) string {
	GinkgoHelper()
	var p *bullmqhttp.Problem
	Expect(errors.As(err, &p)).To(BeTrue(), "%v", err)
	Expect(p.Status).To(BeNumerically(">=", 400))
	return p.Code
}

// post sends a JSON body, as a worker unless that is "".
func (m *managed) post(worker, path, body string) answer {
	GinkgoHelper()
	headers := []string{"Content-Type", "application/json"}
	if worker != "" {
		headers = append(headers, "Worker", worker)
	}
	return m.do("POST", "/manage"+path, body, headers...)
}
