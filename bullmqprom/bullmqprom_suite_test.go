package bullmqprom_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqprom"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestBullMQProm(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(10 * time.Second)
	suite.RunWhole(t, "bullmqprom")
}

var _ = BeforeEach(leaks.Check)

// specContext returns a context that ends with the spec.
func specContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	DeferCleanup(cancel)
	return ctx
}

// startRedis starts a server for the spec and returns it with a connection.
func startRedis() (*redisserver.Server, *bullmq.Connection) {
	GinkgoHelper()
	server, err := redisserver.Start(redisserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	connection, err := bullmq.Connect(specContext(), server.URL())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(connection.Close)
	return server, connection
}

func newQueue(name string, o bullmq.QueueOptions) *bullmq.Queue {
	GinkgoHelper()
	queue, err := bullmq.NewQueue(specContext(), name, &o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(queue.Close)
	return queue
}

// gathered returns the values of a collector's samples by name and values of labels, such
// as bullmq_up{orders}. For a histogram it is the number of observations.
func gathered(c prometheus.Collector) map[string]float64 {
	GinkgoHelper()
	registry := prometheus.NewPedanticRegistry()
	Expect(registry.Register(c)).To(Succeed())
	families, err := registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := ""
			for i, label := range metric.GetLabel() { // sorted by name
				if i > 0 {
					labels += ","
				}
				labels += label.GetValue()
			}
			values[family.GetName()+"{"+labels+"}"] = valueOf(metric)
		}
	}
	return values
}

func valueOf(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.GetCounter().GetValue()
	case metric.Histogram != nil:
		return float64(metric.GetHistogram().GetSampleCount())
	}
	return metric.GetGauge().GetValue()
}

var descName = regexp.MustCompile(`fqName: "([^"]+)"`)

// describedNames returns the names of all metrics of the package.
func describedNames(queue *bullmq.Queue) (names []string) {
	descs := make(chan *prometheus.Desc, 100)
	bullmqprom.New(nil).Describe(descs)
	bullmqprom.NewQueues(nil, queue).Describe(descs)
	close(descs)
	for desc := range descs {
		names = append(names, descName.FindStringSubmatch(desc.String())[1])
	}
	return names
}
