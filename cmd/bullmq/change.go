package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// change has the flags of a command that changes something.
type change struct{ dry, yes bool }

// add adds the flags. dry tells what --dry-run does.
func (o *change) add(command *cobra.Command, dry string) {
	command.Flags().BoolVar(&o.dry, "dry-run", false, dry+", and change nothing")
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
}

// check returns an error if the command can neither ask nor need not. what is what it does,
// such as retry.
func (o *change) check(command *cobra.Command, what string) error {
	if o.dry || o.yes || isTerminal(command.InOrStdin()) {
		return nil
	}
	return usageError{fmt.Errorf("the input is not a terminal that can be asked: see what would change with --dry-run, and %s with --yes", what)}
}

// checkSelection returns an error unless a command is given either ids, or conditions or --all.
func checkSelection(byID, all, conditions bool) error {
	switch {
	case byID && (all || conditions):
		return usageError{errors.New("give either ids or conditions")}
	case !byID && !all && !conditions:
		return usageError{errors.New("give ids, conditions such as --error, or --all")}
	}
	return nil
}

// counted are things that a command has counted before it changes them.
type counted struct {
	result
	one, many string // the things, such as job and jobs
	done      string // what is done with them, such as removed
	question  string // whether to do it
}

// mayChange reports whether a command is to change what it has counted. If not, it has reported
// that: there is --dry-run, or there is nothing to change. It asks unless there is --yes.
func (c *client) mayChange(command *cobra.Command, o change, all counted) (bool, error) {
	all.DryRun = o.dry
	if o.dry || all.Matched == 0 && !all.More {
		return false, c.reportOf(command, all.one, all.many, all.done, all.result)
	}
	err := o.ask(command, all.question)
	return err == nil, err
}

var errUnchanged = errors.New("bullmq: nothing was changed")

// ask asks, unless --yes is given. It returns errUnchanged if the answer is no.
func (o *change) ask(command *cobra.Command, question string) error {
	if o.yes || confirm(command, question) {
		return nil
	}
	return errUnchanged
}

// confirm asks a question on the terminal.
func confirm(command *cobra.Command, question string) bool {
	answer := prompt(command, question+" [y/N] ")
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

// prompt writes a text to the terminal, and reads a line. It returns "" when it is interrupted.
func prompt(command *cobra.Command, text string) string {
	_, _ = fmt.Fprint(command.ErrOrStderr(), text)
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(command.InOrStdin()).ReadString('\n')
		answered <- strings.TrimSpace(answer)
	}()
	select {
	case answer := <-answered:
		return answer
	case <-command.Context().Done():
		_, _ = fmt.Fprintln(command.ErrOrStderr())
		return ""
	}
}

// result tells what a command has done with jobs, in JSON.
type result struct {
	Matched int `json:"matched"`
	Done    int `json:"done"`
	// Requested is the number of those of Done that run, and whose worker is only asked to stop.
	Requested int               `json:"requested,omitempty"`
	Gone      int               `json:"gone,omitempty"`
	Failed    map[string]string `json:"failed,omitempty"`
	Jobs      []string          `json:"jobs,omitempty"` // that were added
	More      bool              `json:"more,omitempty"`
	DryRun    bool              `json:"dryRun,omitempty"`
}

func (r *result) fail(id string, err error) {
	if r.Failed == nil {
		r.Failed = map[string]string{}
	}
	r.Failed[id] = err.Error()
}

// report writes what was done with jobs, such as retried. It returns an error if that has
// failed for a job.
func (c *client) report(command *cobra.Command, done string, r result) error {
	return c.reportOf(command, "job", "jobs", done, r)
}

// reportOf is report for other things than jobs.
func (c *client) reportOf(command *cobra.Command, one, many, done string, r result) error {
	out := command.OutOrStdout()
	if !c.asTable(command) {
		if err := writeJSON(out, r); err != nil {
			return err
		}
	} else if r.DryRun {
		_, _ = fmt.Fprintf(out, "%s would be %s; nothing was changed\n", count(r.Matched-len(r.Failed), one, many), done)
	} else {
		_, _ = fmt.Fprintf(out, "%d of %s %s\n", r.Done-r.Requested, count(r.Matched, one, many), done)
		if r.Requested > 0 {
			_, _ = fmt.Fprintln(out, count(r.Requested, "cancellation", "cancellations")+" requested: a worker of BullMQ stops only if its code looks for cancellations")
		}
		for _, id := range r.Jobs {
			_, _ = fmt.Fprintln(out, "added job", printable(id, longestCell))
		}
	}
	if r.More {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "There may be more jobs that match: raise --max-read or --timeout, or repeat the command.")
	}
	if len(r.Failed) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "bullmq: not %s:", done)
	for i, id := range sortedKeys(r.Failed) {
		if i == longestList {
			fmt.Fprintf(&text, "\n  and %d others", len(r.Failed)-i)
			break
		}
		fmt.Fprintf(&text, "\n  %s: %s", printable(id, longestCell), printable(strings.TrimPrefix(r.Failed[id], "bullmq: "), 200))
	}
	return errors.New(text.String())
}

// longestList is how many failures an error lists.
const longestList = 20

// jobs returns a number of jobs, as a text.
func jobs(n int) string { return count(n, "job", "jobs") }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
