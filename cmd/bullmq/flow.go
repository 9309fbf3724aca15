package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// flowLine is a job of a flow in JSON, with its children.
type flowLine struct {
	Queue        string              `json:"queue"`
	Prefix       string              `json:"prefix,omitempty"` // if it is not that of the root
	ID           string              `json:"id"`
	Name         string              `json:"name,omitempty"`
	State        bullmq.State        `json:"state,omitempty"`
	Outcome      bullmq.ChildOutcome `json:"outcome,omitempty"` // as the parent has recorded it
	Removed      bool                `json:"removed,omitempty"`
	Error        string              `json:"error,omitempty"` // why the job can't be read
	Added        time.Time           `json:"added,omitzero"`
	Started      time.Time           `json:"started,omitzero"`
	Finished     time.Time           `json:"finished,omitzero"`
	AttemptsMade int                 `json:"attemptsMade,omitempty"`
	FailedReason string              `json:"failedReason,omitempty"`
	Counts       *childCounts        `json:"counts,omitempty"`
	LeftOut      int                 `json:"leftOut,omitempty"` // children that were not read
	Children     []*flowLine         `json:"children,omitempty"`
}

// childCounts are the numbers of children by their outcome, also of those that were not read.
type childCounts struct {
	Processed   int `json:"processed"`
	Unprocessed int `json:"unprocessed"`
	Ignored     int `json:"ignored"`
	Failed      int `json:"failed"`
}

const mostFlowDepth = 1000 // JSON is nested as deep as the flow

func newFlow(c *client) *cobra.Command {
	var root bool
	query := bullmq.FlowTreeQuery{}
	command := &cobra.Command{
		Use:   "flow QUEUE ID",
		Short: "Show a job with its children, their children and so on",
		Long: "Show a job with its children, their children and so on, as a tree. JSON is one value with nested children.\n\n" +
			"Failed children are marked with an x, and those whose failure the parent ignores with an exclamation mark.",
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case query.MaxNodes < 1:
				return usageError{fmt.Errorf("--max-nodes is at least 1")}
			case query.MaxDepth < 1 || query.MaxDepth > mostFlowDepth:
				return usageError{fmt.Errorf("--depth is from 1 to %d", mostFlowDepth)}
			}
			ctx, connection, end, err := c.connect(command)
			if err != nil {
				return err
			}
			defer end()
			query.QueueName, query.ID, query.Prefix, query.FromRoot = args[0], args[1], c.prefix, root
			if c.asTable(command) && !command.Flags().Changed("max-nodes") {
				query.MaxNodes = shownNodes
			}
			return c.showFlow(ctx, command, connection, query)
		},
	}
	flags := command.Flags()
	flags.BoolVar(&root, "root", false, "begin at the root of the flow that the job belongs to")
	flags.IntVar(&query.MaxNodes, "max-nodes", 10_000, fmt.Sprintf("read at most this number of jobs (on a terminal %d)", shownNodes))
	flags.IntVar(&query.MaxDepth, "depth", 100, "read at most this number of levels")
	return command
}

const shownNodes = 200

func (c *client) showFlow(ctx context.Context, command *cobra.Command, connection *bullmq.Connection, query bullmq.FlowTreeQuery) error {
	tree, err := bullmq.ReadFlowTree(ctx, connection, query)
	if err != nil {
		return err
	}
	if !c.asTable(command) {
		err = writeJSON(command.OutOrStdout(), lineOfNode(tree.Root, tree.Root.Prefix))
	} else {
		writer := &flowWriter{out: command.OutOrStdout(), prefix: query.Prefix}
		if len(tree.Ancestors) > 0 {
			writer.asked = bullmq.FlowTreeKey{Prefix: query.Prefix, QueueName: query.QueueName, ID: query.ID}
		}
		err = writer.write(tree.Root, "", "")
	}
	if tree.LeftOut > 0 {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "%s left out: raise --max-nodes or --depth, or show one of the jobs with its children.\n", count(tree.LeftOut, "job was", "jobs were"))
	}
	return err
}

func lineOfNode(node *bullmq.FlowTreeNode, prefix string) *flowLine {
	line := &flowLine{
		Queue: node.QueueName, ID: node.ID, Name: node.Name, State: node.State, Outcome: node.Outcome, Removed: node.Removed,
		Added: node.Timestamp, Started: node.ProcessedOn, Finished: node.FinishedOn, AttemptsMade: node.AttemptsMade,
		FailedReason: node.FailedReason, LeftOut: node.LeftOut,
	}
	if node.Prefix != prefix {
		line.Prefix = node.Prefix
	}
	if node.Err != nil {
		line.Error = node.Err.Error()
	}
	if d := node.Dependencies; d != (bullmq.DependencyCounts{}) {
		line.Counts = &childCounts{d.Processed, d.Unprocessed, d.Ignored, d.Failed}
	}
	for _, child := range node.Children {
		line.Children = append(line.Children, lineOfNode(child, prefix))
	}
	return line
}

// flowWriter writes a flow as a tree.
type flowWriter struct {
	out    io.Writer
	prefix string
	asked  bullmq.FlowTreeKey // the job that is marked; empty if it is the root
}

// deepestIndent is the number of levels that are indented, so that a chain stays readable.
const deepestIndent = 30

// write writes a job and its children. before is written before the line of the job, and below
// before the lines of its children.
func (w *flowWriter) write(node *bullmq.FlowTreeNode, before, below string) error {
	if _, err := fmt.Fprintln(w.out, before+w.text(node)); err != nil {
		return err
	}
	for i, child := range node.Children {
		branch, indent := "├─ ", "│  "
		if i == len(node.Children)-1 && node.LeftOut == 0 {
			branch, indent = "└─ ", "   "
		}
		if utf8.RuneCountInString(below) > 3*deepestIndent {
			indent = ""
		}
		if err := w.write(child, below+branch, below+indent); err != nil {
			return err
		}
	}
	if node.LeftOut == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w.out, "%s└─ … %s not shown\n", below, count(node.LeftOut, "child", "children"))
	return err
}

// text returns the line of a job.
func (w *flowWriter) text(node *bullmq.FlowTreeNode) string {
	key := printable(node.QueueName, 40) + "/" + printable(node.ID, 40)
	if node.Prefix != w.prefix {
		key = printable(node.Prefix, 40) + ":" + key
	}
	parts := []string{mark(node), printable(node.Name, 40), key}
	switch {
	case node.Err != nil:
		parts = append(parts, "can't be read: "+printable(node.Err.Error(), 100))
	case node.Removed:
		parts = append(parts, "removed")
	case node.State == "":
		parts = append(parts, "in no state")
	default:
		parts = append(parts, string(node.State))
	}
	switch node.Outcome {
	case bullmq.ChildIgnored:
		parts = append(parts, "(its failure is ignored)")
	case bullmq.ChildFailed:
		parts = append(parts, "(it fails its parent)")
	}
	if !node.FinishedOn.IsZero() && !node.ProcessedOn.IsZero() {
		parts = append(parts, "in "+short(node.FinishedOn.Sub(node.ProcessedOn)))
	}
	if d := node.Dependencies; d != (bullmq.DependencyCounts{}) {
		all := d.Processed + d.Unprocessed + d.Ignored + d.Failed
		parts = append(parts, fmt.Sprintf("(%d of %s completed)", d.Processed, count(all, "child", "children")))
	}
	if node.FailedReason != "" {
		parts = append(parts, "— "+printable(node.FailedReason, 80))
	}
	if node.FlowTreeKey == w.asked {
		parts = append(parts, "←")
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// mark returns a sign for how a job has ended.
func mark(node *bullmq.FlowTreeNode) string {
	switch {
	case node.Outcome == bullmq.ChildIgnored:
		return "!"
	case node.State == bullmq.StateFailed || node.Outcome == bullmq.ChildFailed:
		return "x"
	case node.State == bullmq.StateCompleted || node.Outcome == bullmq.ChildProcessed:
		return "✓"
	}
	return "·"
}
