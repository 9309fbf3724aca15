package bullmqprom_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// Metrics that the dashboard and the alerts use.
var metricName = regexp.MustCompile(`\bbullmq_[a-z_]+\b`)

var _ = Describe("The dashboard and the alerts", func() {
	It("use only metrics that are exported", func() {
		_, connection := startRedis()
		queue := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		exported := map[string]bool{}
		for _, name := range describedNames(queue) {
			for _, suffix := range []string{"", "_bucket"} {
				exported[name+suffix] = true
			}
		}
		for _, path := range []string{"grafana/bullmq.json", "prometheus/alerts.yaml"} {
			text, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			used := metricName.FindAllString(string(text), -1)
			Expect(used).NotTo(BeEmpty())
			for _, name := range used {
				Expect(exported).To(HaveKey(name), path)
			}
		}
	})

	It("are well-formed: the dashboard is JSON, and each of its panels has a query", func() {
		text, err := os.ReadFile("grafana/bullmq.json")
		Expect(err).NotTo(HaveOccurred())
		var dashboard struct {
			Title  string
			Panels []struct{ Targets []struct{ Expr string } }
		}
		Expect(json.Unmarshal(text, &dashboard)).To(Succeed())
		Expect(dashboard.Title).To(Equal("BullMQ"))
		Expect(dashboard.Panels).NotTo(BeEmpty())
		for _, panel := range dashboard.Panels {
			Expect(panel.Targets).NotTo(BeEmpty())
		}
	})
})

var _ = Describe("A Prometheus server", func() {
	BeforeEach(func() {
		if os.Getenv("BULLMQ_PROMETHEUS") == "" {
			Skip("make prometheus runs this")
		}
	})
	run := func(name string, arguments ...string) {
		GinkgoHelper()
		output, err := exec.Command(name, arguments...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", output)
	}
	// start runs a program until the spec ends.
	start := func(environment []string, name string, arguments ...string) {
		GinkgoHelper()
		command := exec.Command(name, arguments...)
		command.Env = append(os.Environ(), environment...)
		command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
		Expect(command.Start()).To(Succeed())
		DeferCleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(address string) (string, error) {
		reply, err := client.Get(address)
		if err != nil {
			return "", err
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err == nil && reply.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", reply.Status, text)
		}
		return string(text), err
	}

	It("accepts the alerts, which fire as their tests expect", func() {
		run("promtool", "check", "rules", "prometheus/alerts.yaml")
		run("promtool", "test", "rules", "prometheus/alerts_test.yaml")
	})

	It("scrapes a worker process and fires the alert for an old job, and no other", func() {
		redis, connection := startRedis()
		folder := GinkgoT().TempDir()
		address := func() string {
			GinkgoHelper()
			port, err := redisserver.FreePort()
			Expect(err).NotTo(HaveOccurred())
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
		program, exporter, prometheus := filepath.Join(folder, "example"), address(), address()
		run("go", "build", "-o", program, "./example")

		rules, err := os.ReadFile("prometheus/alerts.yaml")
		Expect(err).NotTo(HaveOccurred())
		soon := regexp.MustCompile(`for: \d+m`).ReplaceAllString(string(rules), "for: 1s")
		Expect(os.WriteFile(filepath.Join(folder, "alerts.yaml"), []byte(soon), 0o600)).To(Succeed())
		config := filepath.Join(folder, "prometheus.yaml")
		Expect(os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: workers
    static_configs: [{targets: ['%s']}]
`, exporter), 0o600)).To(Succeed())
		run("promtool", "check", "config", config)

		start([]string{"REDIS_URL=" + redis.URL()}, program, "-listen", exporter)
		start(nil, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+prometheus)
		query := func(expression string) func() (string, error) {
			return func() (string, error) {
				return get("http://" + prometheus + "/api/v1/query?query=" + url.QueryEscape(expression))
			}
		}
		Eventually(query(`bullmq_up{queue="orders"} == 1`), "20s", "200ms").Should(ContainSubstring(`"queue":"orders"`))
		Eventually(query(`bullmq_worker_jobs_total{outcome="failed",name="pack"} == 2`), "10s", "200ms").Should(ContainSubstring(`"queue":"orders"`))
		Eventually(query(`bullmq_worker_job_duration_seconds_bucket{le="+Inf",outcome="completed"} == 1`), "10s", "200ms").Should(ContainSubstring(`"queue":"orders"`))
		Eventually(query(`bullmq_job_completed_total == 1`), "10s", "200ms").Should(ContainSubstring(`"queue":"orders"`))

		firing := func() (names []string, err error) {
			text, err := get("http://" + prometheus + "/api/v1/alerts")
			if err != nil {
				return nil, err
			}
			var reply struct {
				Data struct {
					Alerts []struct {
						State  string
						Labels map[string]string
					}
				}
			}
			err = json.Unmarshal([]byte(text), &reply)
			for _, alert := range reply.Data.Alerts {
				if alert.State == "firing" {
					names = append(names, strings.Join([]string{alert.Labels["alertname"], alert.Labels["queue"], alert.Labels["state"]}, " "))
				}
			}
			return names, err
		}
		Consistently(firing, "3s", "500ms").Should(BeEmpty())
		queue := newQueue("orders", bullmq.QueueOptions{Connection: connection})
		Expect(queue.Pause(specContext())).To(Succeed())
		_, err = queue.Add(specContext(), "pack", nil, &bullmq.JobOptions{Timestamp: time.Now().Add(-time.Hour)})
		Expect(err).NotTo(HaveOccurred())
		Eventually(firing, "15s", "200ms").Should(ConsistOf("BullMQOldestJobTooOld orders waiting"))
	})
})
