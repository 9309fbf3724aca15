package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/nodeprocess"
)

type report struct {
	rounds int
	redis  string
	sides  sides
}

// text is the table, in Markdown. The first side is what ratios refer to.
func (r report) text() string {
	node, own := r.sides[0], r.sides[1]
	var t strings.Builder
	fmt.Fprintf(&t, "| figure | %s | %s | ratio |\n|---|---|---|---|\n", node.name, own.name)
	row := func(name, unit string, of func(*side) float64) {
		a, b := of(node), of(own)
		fmt.Fprintf(&t, "| %s | %.2f %s | %.2f %s | %.2f |\n", name, a, unit, b, unit, b/a)
	}
	row("from the call of add to the start of the handler, median", "ms", func(s *side) float64 { return medianOf(s.whole, 0.5) })
	row("the same, 99th percentile", "ms", func(s *side) float64 { return medianOf(s.whole, 0.99) })
	row("from the return of add to the start of the handler, median", "ms", func(s *side) float64 { return medianOf(s.pickup, 0.5) })
	row("the same, 99th percentile", "ms", func(s *side) float64 { return medianOf(s.pickup, 0.99) })
	row("lateness of delayed jobs, median", "ms", func(s *side) float64 { return quantile(s.lateness, 0.5) })
	row("lateness of delayed jobs, 95th percentile", "ms", func(s *side) float64 { return quantile(s.lateness, 0.95) })
	row("delayed jobs that start within 5 ms", "%", func(s *side) float64 { return 100 * within(s.lateness, 5) })
	fmt.Fprintf(&t, "\n%s; %d rounds, the two in turns on one Redis, each library with a producer and an idle worker of "+
		"concurrency 1 in processes of their own. The first four rows: %d adds a round, %d ms apart; median over the rounds. "+
		"Lateness: %d jobs a round delayed by 230 to 370 ms, from timestamp + delay to the start of the handler, over all rounds.\n",
		r.environment(), r.rounds, pickupAdds, pickupSpacing, delayedJobs)
	return t.String()
}

func (r report) environment() string {
	rueidisVersion := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/redis/rueidis" {
				rueidisVersion = dep.Version
			}
		}
	}
	nodeVersion := "?"
	if out, err := exec.Command("node", "--version").Output(); err == nil {
		nodeVersion = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s, %s, %d cores; Redis %s, %s, rueidis %s, Node.js %s",
		time.Now().Format("2006-01-02"), runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(),
		r.redis, runtime.Version(), rueidisVersion, nodeVersion)
}

func redisVersion(url string) (string, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return "", err
	}
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return "", err
	}
	defer client.Close()
	info, err := client.Do(context.Background(), client.B().Info().Section("server").Build()).ToString()
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(version), err
		}
	}
	return "?", err
}

const (
	begin = "<!-- figures: begin -->"
	end   = "<!-- figures: end -->"
)

// write puts the table between the marks in docs/benchmarks.md.
func (r report) write() error {
	root, err := nodeprocess.ModuleRoot()
	if err != nil {
		return err
	}
	path := filepath.Join(root, "docs", "benchmarks.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no place for figures: the lines %s and %s", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+r.text()+end+after), 0o644)
}
