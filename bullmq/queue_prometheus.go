package bullmq

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// PrometheusMetrics returns the queue's metrics in the text format of Prometheus, as the
// function [PrometheusMetrics] does for several queues (BullMQ:
// exportPrometheusMetrics, whose text has no final newline).
func (q *Queue) PrometheusMetrics(ctx context.Context, labels map[string]string) (string, error) {
	return PrometheusMetrics(ctx, labels, q)
}

// PrometheusMetrics returns the metrics of several queues in the text format of
// Prometheus: the gauge bullmq_job_count by state, and the counters
// bullmq_job_completed_total and bullmq_job_failed_total, which count only the jobs of
// workers with MetricsPoints. Each sample has the label queue. Samples are in the order
// of the queues.
//
// labels are added to each sample. Their names may contain letters, digits and
// underscores, must not begin with a digit or two underscores, and must not be queue or
// state. Invalid UTF-8 in names of queues and
// values of labels is replaced. Without queues the text is empty.
func PrometheusMetrics(ctx context.Context, labels map[string]string, queues ...*Queue) (string, error) {
	extra, err := prometheusLabels(labels)
	if err != nil {
		return "", err
	}
	counts := prometheusFamily{name: "bullmq_job_count", kind: "gauge", help: "Number of jobs in the queue by state"}
	completed := prometheusFamily{name: "bullmq_job_completed_total", kind: "counter", help: "Total number of completed jobs"}
	failed := prometheusFamily{name: "bullmq_job_failed_total", kind: "counter", help: "Total number of failed jobs"}
	seen := map[string]bool{}
	for i, q := range queues {
		if q == nil {
			return "", fmt.Errorf("bullmq: PrometheusMetrics: queue %d of %d is nil", i+1, len(queues))
		}
		queue := prometheusText(q.Name())
		if seen[queue] {
			return "", fmt.Errorf("bullmq: PrometheusMetrics: two queues are named %s: pass each name once, and export queues with another prefix in a separate call with an additional label", q.Name())
		}
		seen[queue] = true
		states := slices.Sorted(slices.Values(q.core.statesOf(nil))) // Node's order
		jobs, err := q.Counts(ctx, states...)
		if err != nil {
			return "", err
		}
		for _, state := range states {
			counts.add(jobs[state], `queue="%s", state="%s"%s`, queue, state, extra)
		}
		for kind, family := range map[State]*prometheusFamily{StateCompleted: &completed, StateFailed: &failed} {
			ended, err := q.Metrics(ctx, kind, Page{Limit: 1})
			if err != nil {
				return "", err
			}
			family.add(ended.Count, `queue="%s"%s`, queue, extra)
		}
	}
	return counts.text() + completed.text() + failed.text(), nil
}

// prometheusFamily is a metric with its samples. In the text a line HELP and a line TYPE
// precede all samples of a metric.
type prometheusFamily struct {
	name, kind, help string
	samples          strings.Builder
}

// add adds a sample. labels is a format for the values.
func (f *prometheusFamily) add(value int, labels string, values ...any) {
	fmt.Fprintf(&f.samples, "%s{%s} %d\n", f.name, fmt.Sprintf(labels, values...), value)
}

func (f *prometheusFamily) text() string {
	if f.samples.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, f.samples.String())
}

var (
	prometheusName   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	prometheusEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
)

// prometheusText returns the value of a label with its special characters escaped, but
// without quotes around it.
func prometheusText(value string) string {
	return prometheusEscape.Replace(strings.ToValidUTF8(value, "\uFFFD"))
}

// prometheusLabels returns the text of the caller's labels, sorted by name, with a comma
// before each.
func prometheusLabels(labels map[string]string) (string, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		switch {
		case name == "queue" || name == "state":
			return "", fmt.Errorf("bullmq: PrometheusMetrics: the label %s is set from the queue: choose another name", name)
		case !prometheusName.MatchString(name):
			return "", fmt.Errorf("bullmq: PrometheusMetrics: %.80q is not a valid name of a label: use letters, digits and underscores, and no digit first", name)
		case strings.HasPrefix(name, "__"):
			return "", fmt.Errorf("bullmq: PrometheusMetrics: the label %.80s begins with two underscores, which Prometheus reserves: choose another name", name)
		}
		fmt.Fprintf(&text, `, %s="%s"`, name, prometheusText(labels[name]))
	}
	return text.String(), nil
}
