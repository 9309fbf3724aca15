// Command bullmq shows and changes the queues of a Redis: `bullmq help` lists its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The exit codes besides 0.
const (
	exitFailed = 1 // the command has failed, or has not done all that it should
	exitUsage  = 2 // the command line is wrong; nothing was done
	exitAbsent = 3 // the job or scheduler does not exist
	exitFound  = 4 // doctor has found errors or warnings

	exitInterrupted = 130 // by a signal, before it was done
)

// usageError is an error of the command line.
type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, arguments []string) int {
	root := newRoot()
	root.SetArgs(arguments)
	command, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "bullmq: %s\nSee %s --help.\n", errorText(err), command.CommandPath())
		return exitUsage
	case errors.Is(err, errFound):
		return exitFound
	case errors.Is(err, bullmq.ErrJobNotFound), errors.Is(err, bullmq.ErrSchedulerNotFound):
		fmt.Fprintln(os.Stderr, errorText(err))
		return exitAbsent
	}
	text := errorText(err)
	if !strings.HasPrefix(text, "bullmq: ") {
		text = "bullmq: " + text
	}
	fmt.Fprintln(os.Stderr, text)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(os.Stderr, "The time is over: --timeout gives the command more.")
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "can't run this command"):
		fmt.Fprintln(os.Stderr, "The user of Redis lacks a permission. docs/security.md of bullmq-go lists those of an administrator, which this command needs.")
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	c := &client{}
	root := &cobra.Command{
		Use:           "bullmq",
		Short:         "Show and change BullMQ queues",
		Long:          "Show and change the queues of BullMQ in a Redis, of any client in Go or Node.\n\nOn a terminal the output is a table, otherwise JSON, one value a line.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,

		SuggestionsMinimumDistance: 2,
	}
	flags := root.PersistentFlags()
	c.addTargetFlags(flags)
	flags.BoolVar(&c.json, "json", false, "write JSON, also to a terminal")
	flags.BoolVar(&c.table, "table", false, "write tables, also if the output is not a terminal")
	flags.DurationVar(&c.timeout, "timeout", defaultTimeout, "limit of the calls to Redis of the command")
	root.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if c.json && c.table {
			return usageError{errors.New("give --json or --table, not both")}
		}
		if c.timeout <= 0 {
			return usageError{errors.New("--timeout must be more than 0, such as 30s")}
		}
		return nil
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newQueues(c), newJobs(c), newJob(c), newAdd(c), newPause(c), newResume(c), newWorkers(c), newSchedulers(c), newTail(c), newStranded(c), newRepair(c), newDashboard(c))
	root.AddCommand(newClean(c), newDrain(c), newObliterate(c), newLimit(c), newSearch(c), newDead(c), newReplay(c))
	root.AddCommand(newScheduler(c), newEdit(c), newDuplicate(c), newLogs(c), newBench(c), newFlow(c), newMove(c))
	for _, action := range actions {
		root.AddCommand(newAction(c, action))
	}
	root.AddCommand(newDoctor(c), newOrphans(c), newDev(c), newTop(c))
	markUsage(root)
	c.addCompletion(root)
	group(root)
	return root
}

// groups are the groups of commands in the help. Commands that are in none come last.
var groups = []struct {
	title    string
	commands []string
}{
	{"Look:", []string{"queues", "jobs", "search", "job", "logs", "flow", "schedulers", "workers", "dead", "tail", "top", "doctor", "stranded"}},
	{"Act on jobs:", []string{"add", "edit", "duplicate", "retry", "promote", "remove", "cancel", "move", "replay", "scheduler"}},
	{"Act on queues:", []string{"pause", "resume", "limit", "clean", "drain", "obliterate", "repair", "orphans"}},
	{"Run:", []string{"dashboard", "dev", "bench"}},
}

// group puts the commands into their groups.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, command := range root.Commands() {
			if slices.Contains(g.commands, command.Name()) {
				command.GroupID = g.title
			}
		}
	}
}

// markUsage makes errors of arguments usage errors, of a command and those below it.
func markUsage(command *cobra.Command) {
	for _, below := range command.Commands() {
		markUsage(below)
	}
	check := command.Args
	command.Args = func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			usage := strings.TrimSuffix(command.UseLine(), " [flags]")
			if command.HasSubCommands() && len(args) > 0 {
				if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
					return usageError{fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))}
				}
				return usageError{err}
			}
			return usageError{fmt.Errorf("%w; the usage is: %s", err, usage)}
		}
		return nil
	}
}
