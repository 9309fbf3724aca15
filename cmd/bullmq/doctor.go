package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The severities of findings.
const (
	severityError   = "error"   // jobs do not run
	severityWarning = "warning" // jobs may not run, run late, or be lost
	severityInfo    = "info"    // for the reader; nothing is wrong
)

// finding is what doctor has found.
type finding struct {
	Queue    string `json:"queue,omitempty"`
	Severity string `json:"severity"`
	Check    string `json:"check"`
	Found    string `json:"found"`
	Means    string `json:"means,omitempty"`
	Remedy   string `json:"remedy,omitempty"` // a command to type, or what else to do
}

// errFound is returned by doctor if it has found errors or warnings.
var errFound = errors.New("bullmq: doctor has found something")

// doctor looks for reasons why workers see no jobs.
type doctor struct {
	c          *client
	connection *bullmq.Connection
	redis      rueidis.Client
	option     rueidis.ClientOption
	cluster    bool
	keys       int64 // in the database
	named      bool  // the command line names queues
	scan       bool  // look at all keys once for each queue

	names     []string                   // the queues
	elsewhere map[string]prefixedWorkers // of queues of the same name with another prefix
	described int                        // queues with another prefix
	findings  []finding
}

func newDoctor(c *client) *cobra.Command {
	var scan, quiet bool
	command := &cobra.Command{
		Use:   "doctor [QUEUE...]",
		Short: "Explain why workers see no jobs",
		Long: "Explain why workers see no jobs, for some queues or for all.\n\n" +
			"doctor looks at the server, at the names of queues, at settings, workers and jobs. It changes nothing.\n" +
			"It exits with 0 if nothing is wrong, and with 4 if it has found errors or warnings.",
		Args: cobra.ArbitraryArgs,
		RunE: func(command *cobra.Command, args []string) error {
			d := &doctor{c: c, named: len(args) > 0, names: slices.Compact(slices.Sorted(slices.Values(args))), scan: scan}
			if err := d.examine(command); err != nil {
				return err
			}
			if quiet {
				d.findings = slices.DeleteFunc(d.findings, func(f finding) bool { return f.Severity == severityInfo })
			}
			return d.report(command)
		},
	}
	command.Flags().BoolVar(&scan, "scan", false, "look for stranded and orphaned jobs also if that takes many calls, because there are many keys or queues")
	command.Flags().BoolVarP(&quiet, "quiet", "q", false, "leave out what is only for information")
	return command
}

// examine makes all checks.
func (d *doctor) examine(command *cobra.Command) error {
	if err := d.c.resolve(command); err != nil {
		return err
	}
	ctx, connection, end, err := d.c.connect(command)
	if err != nil {
		d.find(severityError, "", "connection", err.Error(), "No client with this address can use queues.", "bullmq queues --redis redis://HOST:PORT/DATABASE")
		return nil
	}
	defer end()
	d.connection = connection
	if d.option, err = d.c.option(); err != nil {
		return err
	}
	d.option.RetryDelay = func(int, rueidis.Completed, error) time.Duration { return -1 }
	if d.redis, err = rueidis.NewClient(d.option); err != nil {
		return fmt.Errorf("bullmq: doctor: connect to Redis at %s: %w", connection, err)
	}
	defer d.redis.Close()
	d.cluster = d.redis.Mode() == rueidis.ClientModeCluster
	if err := d.examineServer(ctx); err != nil {
		return err
	}
	return d.examineQueues(ctx)
}

// examineQueues looks for the queues, and at each of those that exist.
func (d *doctor) examineQueues(ctx context.Context) error {
	if err := d.examineNames(ctx); err != nil {
		return err
	}
	summaries, err := bullmq.SummarizeQueues(ctx, d.connection, d.c.prefix, d.names...)
	if err != nil {
		return err
	}
	var workers []bullmq.WorkerInfo
	if len(d.names) > 0 {
		if workers, err = bullmq.ListWorkers(ctx, d.connection, d.c.prefix, d.names...); err != nil {
			return err
		}
	}
	for _, summary := range summaries {
		if err := d.examineQueue(ctx, summary, workers); err != nil {
			return fmt.Errorf("bullmq: doctor: queue %s: %w", printable(summary.Name, longestCell), err)
		}
	}
	return nil
}

func (d *doctor) find(severity, queue, check, found, means, remedy string) {
	d.findings = append(d.findings, finding{queue, severity, check, found, means, remedy})
}

// report writes the findings.
func (d *doctor) report(command *cobra.Command) error {
	out := command.OutOrStdout()
	if d.c.asTable(command) {
		d.write(out)
	} else {
		for _, f := range d.findings {
			if err := writeJSON(out, f); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(d.findings, func(f finding) bool { return f.Severity != severityInfo }) {
		return errFound
	}
	return nil
}

// write writes the findings for a person: those of the server, then those of each queue.
func (d *doctor) write(out io.Writer) {
	counts, queue, first := map[string]int{}, "", true
	for _, f := range d.findings {
		counts[f.Severity]++
		if first || f.Queue != queue {
			if !first {
				_, _ = fmt.Fprintln(out)
			}
			title := "Redis"
			if f.Queue != "" {
				title = "queue " + printable(f.Queue, longestCell)
			}
			_, _ = fmt.Fprintln(out, title)
			queue, first = f.Queue, false
		}
		whole := func(text string) string { return printable(text, max(1, utf8.RuneCountInString(text))) }
		_, _ = fmt.Fprintf(out, "  %-8s %s: %s\n", f.Severity, f.Check, whole(f.Found))
		if f.Means != "" {
			_, _ = fmt.Fprintf(out, "           %s\n", whole(f.Means))
		}
		if f.Remedy != "" {
			_, _ = fmt.Fprintf(out, "           → %s\n", whole(f.Remedy))
		}
	}
	_, _ = fmt.Fprintf(out, "\n%s, %s\n", count(counts[severityError], "error", "errors"), count(counts[severityWarning], "warning", "warnings"))
}

// typed returns a command of this program to type, for the queue and the prefix.
func (d *doctor) typed(verb, queue string, arguments ...string) string {
	return d.typedFor(d.c.prefix, verb, queue, arguments...)
}

func (d *doctor) typedFor(prefix, verb, queue string, arguments ...string) string {
	parts := []string{"bullmq", verb}
	if d.c.profile != "" {
		parts = append(parts, "--profile", shellWord(d.c.profile))
	}
	if prefix != bullmq.DefaultPrefix {
		parts = append(parts, "--prefix", shellWord(prefix))
	}
	parts = append(parts, arguments...)
	if strings.HasPrefix(queue, "-") {
		parts = append(parts, "--")
	}
	if queue != "" {
		parts = append(parts, shellWord(queue))
	}
	return strings.Join(parts, " ")
}

// shellWord returns a text as one word for a shell, in which nothing is special.
func shellWord(text string) string {
	plain, control := text != "", false
	for _, r := range text {
		switch {
		case r < ' ' || r == 0x7f || r == utf8.RuneError || printable(string(r), 1) != string(r):
			plain, control = false, true
		case !strings.ContainsRune("-_./:@%+=,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z'):
			plain = false
		}
	}
	switch {
	case plain:
		return text
	case !control:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var word strings.Builder
	word.WriteString("$'")
	for _, b := range []byte(text) {
		if b < ' ' || b >= 0x7f || b == '\'' || b == '\\' {
			fmt.Fprintf(&word, `\x%02x`, b)
		} else {
			word.WriteByte(b)
		}
	}
	word.WriteByte('\'')
	return word.String()
}
