package dashboard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestDashboard(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	suite.Run(t, "dashboard")
}

var _ = BeforeEach(suite.Select)

var _ = BeforeEach(leaks.Check)

// site is a dashboard of a Redis of its own.
type site struct {
	redis      *redisserver.Server
	connection *bullmq.Connection
	web        *httptest.Server
}

func open(options *dashboard.Options) *site {
	GinkgoHelper()
	redis, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(redis.Close)
	connection, err := bullmq.Connect(context.Background(), redis.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	pages, err := dashboard.New(connection, options)
	Expect(err).NotTo(HaveOccurred())
	s := &site{redis: redis, connection: connection, web: httptest.NewServer(pages)}
	DeferCleanup(s.web.Close)
	return s
}

// queue opens a queue until the spec ends.
func (s *site) queue(name string) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: s.connection})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// get requests a page. changes may change the request.
func (s *site) get(path string, changes ...func(*http.Request)) (*http.Response, string) {
	GinkgoHelper()
	request, err := http.NewRequest(http.MethodGet, s.web.URL+path, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, change := range changes {
		change(request)
	}
	response, err := s.web.Client().Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response, string(text)
}

// page requests a page that exists.
func (s *site) page(path string) string {
	GinkgoHelper()
	response, text := s.get(path)
	Expect(response.StatusCode).To(Equal(http.StatusOK), text)
	Expect(response.Header.Get("Content-Type")).To(Equal("text/html; charset=utf-8"))
	return text
}

// redisText sends one command to the server.
func (s *site) redisText(words ...string) string {
	GinkgoHelper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.redis.Addr()}, DisableCache: true, ForceSingleClient: true})
	Expect(err).NotTo(HaveOccurred())
	defer client.Close()
	message, err := client.Do(context.Background(), client.B().Arbitrary(words...).Build()).ToMessage()
	Expect(err).NotTo(HaveOccurred())
	text, err := message.ToString()
	if err != nil {
		return message.String()
	}
	return text
}

// commands returns how many commands clients have sent. Those of scripts are not counted.
func (s *site) commands() int {
	GinkgoHelper()
	total, inScripts := 0, 0
	info := s.redisText("INFO", "commandstats")
	for _, line := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		n, err := strconv.Atoi(line[2])
		Expect(err).NotTo(HaveOccurred())
		switch line[1] {
		case "llen", "zcard", "lindex", "pttl", "hlen", "hmget", "get", "lrange", "zrange", "exists":
			inScripts += n
		}
		total += n
	}
	return total - inScripts
}

// calls returns how often clients have sent a command.
func (s *site) calls(command string) int {
	GinkgoHelper()
	found := regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(command) + `:calls=(\d+)`).FindStringSubmatch(s.redisText("INFO", "commandstats"))
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	Expect(err).NotTo(HaveOccurred())
	return n
}
