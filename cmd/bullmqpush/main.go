// Command bullmqpush runs the jobs of BullMQ queues by HTTP. It sends each job to the
// endpoint of its queue, as a signed POST request. A service in any language can so run jobs,
// without a BullMQ client.
//
//	export BULLMQPUSH_KEYS=$(bullmqpush -new-key)
//	bullmqpush -queue invoices=https://billing.example.com/jobs
//
// The page docs/push.md of the repository describes the requests, the answers and the flags.
// Run it with -help for all flags.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

func main() {
	err := run(os.Args[1:], os.LookupEnv, os.Stdout)
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "bullmqpush: %v\nbullmqpush -help lists all flags.\n", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "bullmqpush: %v\n", err)
		os.Exit(1)
	}
}

// run runs the command until it has printed what was asked for, or until it is stopped.
func run(arguments []string, variable func(name string) (string, bool), out io.Writer) error {
	c := &config{}
	if err := c.parse(arguments, variable); err != nil {
		return &usageError{err}
	}
	switch {
	case c.help:
		_, err := io.WriteString(out, helpText(c.settings()))
		return err
	case c.version:
		_, err := fmt.Fprintln(out, versionText())
		return err
	case c.newKey:
		_, err := fmt.Fprintln(out, bullmqpush.NewKey())
		return err
	}
	return serve(c)
}

// usageError is an error in the flags, the variables of the environment, or the files that
// they name.
type usageError struct{ cause error }

func (e *usageError) Error() string { return e.cause.Error() }

func (e *usageError) Unwrap() error { return e.cause }
