package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// FlowTreeQuery selects the flow that [ReadFlowTree] reads, and how much of it.
type FlowTreeQuery struct {
	QueueName string
	// Prefix is the prefix of the queue.
	// Defaults to [DefaultPrefix].
	Prefix string
	ID     string
	// FromRoot reads the whole flow that the job belongs to: it begins at the highest
	// ancestor of the job that exists.
	FromRoot bool

	// MaxNodes is the number of jobs to read.
	// Defaults to 10,000.
	MaxNodes int
	// MaxDepth is the number of levels to read.
	// Defaults to no limit other than MaxNodes.
	MaxDepth int
	// MaxChildren is the number of children to read of each job, up to 10,000. Failed
	// children are read first.
	// Defaults to 10,000.
	MaxChildren int
}

// FlowTree is what [ReadFlowTree] has read of a flow.
type FlowTree struct {
	Root *FlowTreeNode
	// Ancestors are the ancestors of the job of the query, if FromRoot is set: first its
	// parent, and last the root.
	Ancestors []FlowTreeKey
	// Nodes is the number of jobs in the tree.
	Nodes int
	// LeftOut is the number of children that are missing in the tree because of the limits, or
	// because more than about 50 calls would have been needed. Their own children are not
	// counted, because they were not read.
	LeftOut int
}

// FlowTreeKey identifies a job of a flow.
type FlowTreeKey struct{ Prefix, QueueName, ID string }

// String returns the key of the job, as [Job.Key] does.
func (k FlowTreeKey) String() string { return k.ref().String() }

func (k FlowTreeKey) ref() backend.JobRef {
	return backend.JobRef{Prefix: k.Prefix, Queue: k.QueueName, ID: k.ID}
}

func flowTreeKey(ref backend.JobRef) FlowTreeKey { return FlowTreeKey{ref.Prefix, ref.Queue, ref.ID} }

// ChildOutcome is what a parent has recorded of a child.
type ChildOutcome string

// The outcomes of children, under BullMQ's names.
const (
	ChildProcessed   ChildOutcome = "processed"   // it has completed
	ChildUnprocessed ChildOutcome = "unprocessed" // the parent waits for it, also if it has failed without OnFailure
	ChildIgnored     ChildOutcome = "ignored"     // it has failed, and the parent ignores that
	ChildFailed      ChildOutcome = "failed"      // its failure fails the parent
)

var childOutcomes = map[backend.ChildKind]ChildOutcome{
	backend.ChildProcessed: ChildProcessed, backend.ChildPending: ChildUnprocessed,
	backend.ChildIgnored: ChildIgnored, backend.ChildFailed: ChildFailed,
}

// FlowTreeNode is a job of a [FlowTree]. It has neither the data nor the return value of the
// job; [Queue.Job] reads them.
type FlowTreeNode struct {
	FlowTreeKey
	// Outcome is what the parent has recorded of the job; "" for the root.
	Outcome ChildOutcome
	// Removed reports that the job no longer exists, such as a completed job with
	// KeepCompleted [KeepNone]. Outcome tells how it ended. The other fields are empty.
	Removed bool
	// Err is why the job can't be read, such as a lack of permission for its queue. The other
	// fields are then empty.
	Err error

	Name string // at most its first 500 bytes
	// State is "" if the job is in no state. In a queue in which more than 1,000 jobs wait, a
	// job that is in no other state counts as waiting. If more than 1,000 are active, a job
	// with a lock counts as active.
	State                              State
	Timestamp, ProcessedOn, FinishedOn time.Time // as in [Job]; zero if the job has none
	AttemptsMade                       int
	// FailedReason has at most the first 500 bytes. It is "" if the reason has more than
	// 32,000 bytes. FailedReasonSize is the length of the whole reason, in bytes.
	FailedReason     string
	FailedReasonSize int

	// Dependencies are the numbers of all children, including those that are left out.
	Dependencies DependencyCounts
	// Children are the children that were read, in the order of their keys.
	Children []*FlowTreeNode
	// LeftOut is the number of children that are not in Children.
	LeftOut int

	depth int
}

const (
	flowTreeNodes     = 10_000
	flowTreeChildren  = 10_000 // the most of a job, so that a call blocks Redis for some milliseconds at most
	flowNodesPerCall  = 500
	flowTreeText      = 500
	flowExtraCalls    = 20 // for nodes in several hash slots or with many children
	ancestorsPerCall  = 1000
	flowAncestorCalls = 10
)

// ReadFlowTree reads a job with its children, their children and so on, without their data. It
// is for showing a flow: unlike [FlowProducer.Flow] it reads 500 jobs in each call. It returns
// [ErrJobNotFound] if the job does not exist.
//
// A flow may have jobs in several queues and prefixes. On a cluster, jobs in another hash slot
// than their parents are read by calls of their own. ReadFlowTree makes at most 20 calls and
// another one for each 500 of MaxNodes. So it may leave out jobs of a flow that has many
// changes of the slot.
//
// The calls read the flow one after the other, so that jobs which change in the meantime may
// have a state and an Outcome that do not agree. ReadFlowTree changes nothing. It reads flows
// of all versions of BullMQ that this SDK supports.
func ReadFlowTree(ctx context.Context, connection *Connection, query FlowTreeQuery) (*FlowTree, error) {
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: read a flow: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	if err := cmp.Or(checkCount("MaxNodes", query.MaxNodes, "10,000"), checkCount("MaxDepth", query.MaxDepth, "no limit"),
		checkCount("MaxChildren", query.MaxChildren, "10,000")); err != nil {
		return nil, fmt.Errorf("bullmq: flow %.80q of queue %.80q was not read: %w", query.ID, query.QueueName, err)
	}
	k, err := newKeys(query.Prefix, query.QueueName)
	if err != nil {
		return nil, err
	}
	r := flowTreeReader{
		store: newFlowReader(connection), room: cmp.Or(query.MaxNodes, flowTreeNodes) - 1,
		cluster: connection.client().IsCluster(), seen: map[backend.JobRef]bool{},
		limits: backend.FlowRead{
			MaxJobs: flowNodesPerCall, MaxDepth: cmp.Or(query.MaxDepth, math.MaxInt32) - 1,
			MaxChildren: min(cmp.Or(query.MaxChildren, flowTreeChildren), flowTreeChildren), MaxText: flowTreeText,
		},
	}
	r.calls = flowExtraCalls + (r.room+flowNodesPerCall)/flowNodesPerCall
	root, tree := backend.JobRef{Prefix: k.prefix, Queue: k.queue, ID: query.ID}, &FlowTree{}
	if query.FromRoot {
		if tree.Ancestors, err = findFlowAncestors(ctx, r.store, root); err != nil {
			return nil, err
		}
		if n := len(tree.Ancestors); n > 0 {
			root = tree.Ancestors[n-1].ref()
		}
	}
	tree.Root = &FlowTreeNode{FlowTreeKey: flowTreeKey(root)}
	if err := r.read(ctx, tree.Root); err != nil {
		return nil, err
	}
	switch {
	case tree.Root.Removed:
		return nil, noFlowJob("readFlow", root)
	case tree.Root.Err != nil:
		return nil, fmt.Errorf("bullmq: job %.80q of queue %.80q can't be read: %w", root.ID, root.Queue, tree.Root.Err)
	}
	tree.Nodes, tree.LeftOut = r.nodes, r.leftOut()
	return tree, nil
}

// FlowAncestors returns the ancestors of a job that exist: first its parent, and last the root
// of its flow. A job without a parent has none. It returns [ErrJobNotFound] if the job does
// not exist. An empty prefix is [DefaultPrefix].
//
// One call reads 1,000 ancestors. On a cluster, each ancestor in another hash slot needs
// another call. After 10 calls FlowAncestors returns the ancestors that it has found.
func FlowAncestors(ctx context.Context, connection *Connection, prefix, queueName, id string) ([]FlowTreeKey, error) {
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: read the ancestors of a job: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	k, err := newKeys(prefix, queueName)
	if err != nil {
		return nil, err
	}
	return findFlowAncestors(ctx, newFlowReader(connection), backend.JobRef{Prefix: k.prefix, Queue: k.queue, ID: id})
}

func findFlowAncestors(ctx context.Context, store backend.FlowReader, job backend.JobRef) ([]FlowTreeKey, error) {
	var ancestors []FlowTreeKey
	seen := map[backend.JobRef]bool{job: true}
	at := job
	for range flowAncestorCalls {
		found, err := store.FlowAncestors(ctx, at, ancestorsPerCall)
		if err != nil {
			return nil, err
		}
		if found.End == backend.AncestorsGone {
			if len(found.Jobs) == 0 { // at does not exist
				if at == job {
					return nil, noFlowJob("flowAncestors", job)
				}
				return ancestors[:len(ancestors)-1], nil
			}
			found.Jobs = found.Jobs[:len(found.Jobs)-1]
		}
		for _, ref := range found.Jobs {
			if seen[ref] || !ref.IsComplete() {
				return ancestors, nil
			}
			seen[ref] = true
			ancestors = append(ancestors, flowTreeKey(ref))
			at = ref
		}
		if found.End != backend.AncestorsElsewhere && found.End != backend.AncestorsMore {
			break
		}
	}
	return ancestors, nil
}

func noFlowJob(command string, job backend.JobRef) error {
	return &Error{Code: backend.JobNotFound, Command: command, QueueName: job.Queue, QueueKey: job.Prefix + ":" + job.Queue, JobID: job.ID}
}

// flowTreeReader reads one flow.
type flowTreeReader struct {
	store   backend.FlowReader
	limits  backend.FlowRead
	cluster bool

	room, calls int // nodes that may still be found, and calls that may still be made
	todo        []*FlowTreeNode
	seen        map[backend.JobRef]bool
	all         []*FlowTreeNode // that were read
	nodes       int
}

func (r *flowTreeReader) read(ctx context.Context, root *FlowTreeNode) error {
	r.todo, r.seen[root.ref()] = []*FlowTreeNode{root}, true
	for len(r.todo) > 0 && r.calls > 0 {
		r.calls--
		if err := r.call(ctx, r.next()); err != nil {
			return fmt.Errorf("bullmq: read the flow of job %.80q of queue %.80q: %w", root.ID, root.QueueName, err)
		}
	}
	return nil
}

// next takes the nodes of the next call: the first one, and others in its hash slot.
func (r *flowTreeReader) next() []*FlowTreeNode {
	if !r.cluster {
		batch := r.todo[:min(len(r.todo), flowNodesPerCall)]
		r.todo = r.todo[len(batch):]
		return batch
	}
	var batch, others []*FlowTreeNode
	tag := wire.HashTag(r.todo[0].String())
	for _, node := range r.todo {
		if len(batch) < flowNodesPerCall && wire.HashTag(node.String()) == tag {
			batch = append(batch, node)
		} else {
			others = append(others, node)
		}
	}
	r.todo = others
	return batch
}

// call reads nodes, and makes nodes of the children that it finds.
func (r *flowTreeReader) call(ctx context.Context, batch []*FlowTreeNode) error {
	read := r.limits
	read.Room = r.room
	for _, node := range batch {
		read.Jobs = append(read.Jobs, backend.FlowStart{JobRef: node.ref(), Depth: node.depth})
	}
	part, err := r.store.ReadFlow(ctx, read)
	if err != nil {
		return err
	}
	nodes := slices.Clone(batch)
	for _, child := range part.Found {
		nodes = append(nodes, r.found(nodes, child))
	}
	var again, below []*FlowTreeNode // that were not read
	for i, node := range nodes {
		switch {
		case node == nil:
		case i < len(part.Records) && part.Records[i] != nil:
			r.record(node, part.Records[i])
		case i < len(batch):
			again = append(again, node)
		default:
			below = append(below, node)
		}
	}
	r.todo = slices.Concat(again, r.todo, below) // level by level
	return nil
}

// found returns the node of a child; nil if the job is already in the tree, or can't be.
func (r *flowTreeReader) found(nodes []*FlowTreeNode, child backend.FlowChild) *FlowTreeNode {
	if child.Parent < 0 || child.Parent >= len(nodes) || nodes[child.Parent] == nil || r.seen[child.JobRef] || r.room == 0 {
		return nil
	}
	r.seen[child.JobRef] = true
	r.room--
	parent := nodes[child.Parent]
	node := &FlowTreeNode{FlowTreeKey: flowTreeKey(child.JobRef), Outcome: childOutcomes[child.Kind], depth: parent.depth + 1}
	parent.Children = append(parent.Children, node)
	if !child.IsComplete() {
		r.record(node, &backend.FlowRecord{Err: noJobKey(child.JobRef)})
		return nil
	}
	return node
}

// record sets what was read of a node.
func (r *flowTreeReader) record(node *FlowTreeNode, record *backend.FlowRecord) {
	r.nodes++
	r.all = append(r.all, node)
	n := record.Children
	node.Err, node.Removed, node.Name, node.State = record.Err, record.Missing, record.Name, State(record.State)
	node.Timestamp, node.ProcessedOn, node.FinishedOn = record.Timestamp, record.ProcessedOn, record.FinishedOn
	node.AttemptsMade, node.FailedReason, node.FailedReasonSize = record.AttemptsMade, record.FailedReason, record.FailedReasonSize
	node.Dependencies = DependencyCounts{Processed: n.Processed, Unprocessed: n.Pending, Ignored: n.Ignored, Failed: n.Failed}
}

// leftOut takes the nodes that were not read out of the tree, sorts and counts children.
func (r *flowTreeReader) leftOut() (total int) {
	unread := make(map[*FlowTreeNode]bool, len(r.todo))
	for _, node := range r.todo {
		unread[node] = true
	}
	for _, node := range r.all {
		node.Children = slices.DeleteFunc(node.Children, func(child *FlowTreeNode) bool { return unread[child] })
		slices.SortFunc(node.Children, func(a, b *FlowTreeNode) int {
			return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.QueueName, b.QueueName), cmp.Compare(a.ID, b.ID))
		})
		d := node.Dependencies
		node.LeftOut = max(d.Processed+d.Unprocessed+d.Ignored+d.Failed-len(node.Children), 0)
		total += node.LeftOut
	}
	return total
}
