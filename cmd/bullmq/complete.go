package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Bounds of the completion of queue names, so that the shell does not wait.
const (
	completionTime  = 800 * time.Millisecond
	completionNames = 200
)

// completeQueues completes the first arguments of a command as names of queues. If many is
// false, only the first one is a queue.
func (c *client) completeQueues(many bool) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if !many && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c.timeout = min(c.timeout, completionTime)
		if command.Context() == nil {
			command.SetContext(context.Background())
		}
		ctx, connection, end, err := c.connect(command)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer end()
		var names []string
		for name, err := range bullmq.ListQueues(ctx, connection, c.prefix) {
			if err != nil || len(names) >= completionNames {
				break // with what was found until then
			}
			if strings.HasPrefix(name, begin) && !slices.Contains(args, name) && name == printable(name, 1000) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeStates completes the names of states, also after a comma.
func completeStates(_ *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begin[:strings.LastIndexByte(begin, ',')+1]
	var names []string
	for _, name := range stateNames() {
		if strings.HasPrefix(before+name, begin) {
			names = append(names, before+name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// addCompletion adds the completion of queue names and states to a command and those below it.
func (c *client) addCompletion(command *cobra.Command) {
	for _, below := range command.Commands() {
		c.addCompletion(below)
	}
	if _, first, _ := strings.Cut(command.Use, " "); command.ValidArgsFunction == nil {
		switch {
		case strings.HasPrefix(first, "QUEUE...") || strings.HasPrefix(first, "[QUEUE...]"):
			command.ValidArgsFunction = c.completeQueues(true)
		case strings.HasPrefix(first, "QUEUE") || strings.HasPrefix(first, "[QUEUE]"):
			command.ValidArgsFunction = c.completeQueues(false)
		default:
			command.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	for _, flag := range []string{"from", "to"} {
		if command.Flags().Lookup(flag) != nil {
			_ = command.RegisterFlagCompletionFunc(flag, c.completeQueueFlag)
		}
	}
	if command.Flags().Lookup("state") != nil {
		_ = command.RegisterFlagCompletionFunc("state", completeStates)
	}
}

// completeQueueFlag completes the value of a flag as the name of a queue.
func (c *client) completeQueueFlag(command *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completeQueues(true)(command, nil, begin)
}
