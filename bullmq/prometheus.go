package bullmq

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

var prometheusEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// PrometheusMetrics writes the queue's figures in the text format of
// Prometheus: the gauge bullmq_job_count by state, and the counters
// bullmq_job_completed_total and bullmq_job_failed_total, which count only what
// workers with MetricsPoints have ended. labels are added to each (BullMQ:
// exportPrometheusMetrics).
func (q *Queue) PrometheusMetrics(ctx context.Context, labels map[string]string) (string, error) {
	states := slices.Sorted(slices.Values(q.core.statesOf(nil))) // Node's order
	counts, err := q.Counts(ctx, states...)
	if err != nil {
		return "", err
	}
	var extra strings.Builder
	names := make([]string, 0, len(labels))
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&extra, `, %s="%s"`, name, prometheusEscape.Replace(labels[name]))
	}
	queue := prometheusEscape.Replace(q.Name())
	lines := []string{
		"# HELP bullmq_job_count Number of jobs in the queue by state",
		"# TYPE bullmq_job_count gauge",
	}
	for _, state := range states {
		lines = append(lines, fmt.Sprintf(`bullmq_job_count{queue="%s", state="%s"%s} %d`, queue, state, extra.String(), counts[state]))
	}
	for _, kind := range []State{Completed, Failed} {
		metrics, err := q.Metrics(ctx, kind, 0, -1)
		if err != nil {
			return "", err
		}
		lines = append(lines,
			fmt.Sprintf("# HELP bullmq_job_%s_total Total number of %s jobs", kind, kind),
			fmt.Sprintf("# TYPE bullmq_job_%s_total counter", kind),
			fmt.Sprintf(`bullmq_job_%s_total{queue="%s"%s} %d`, kind, queue, extra.String(), metrics.Count))
	}
	return strings.Join(lines, "\n"), nil
}
