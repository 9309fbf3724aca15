package bullmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// Flow is a job with children that have to end before it runs (BullMQ:
// FlowJob). Children may be on other queues, and have children of their own.
type Flow struct {
	Name      string
	QueueName string
	Prefix    string // that of the FlowProducer unless given
	Data      any
	Options   *JobOptions
	// Children run first. What becomes of the parent when one fails is the
	// child's option: without any, the parent waits for ever.
	Children []Flow
}

// FlowNode is a job of a flow that was added or read, with its children.
type FlowNode struct {
	// Refused is why this job of a flow that was added could not become a child
	// where it stands, nil if it did: a job with its id has another parent
	// (ErrParentNotReplaceable). Its parent waits without it, until told to go on.
	Refused  error
	Job      *Job
	Children []*FlowNode
}

// FlowProducerOptions configure a FlowProducer; nil and the zero value hold the defaults.
type FlowProducerOptions struct {
	// Connection is shared with others that use it. Whoever made it closes it.
	// Defaults to a connection of its own, to URL.
	Connection *Connection
	// URL is the address of Redis, for a connection of its own, instead of a
	// Connection. It is printed as it is, with a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys; "bull" unless given.
	Prefix string
	// Dialect is the version of BullMQ that the queues are to look like; found
	// out for each queue unless given.
	Dialect Dialect
	// DefaultJobOptions hold for jobs of a queue, by its name, that say nothing
	// else themselves (BullMQ: queuesOptions).
	DefaultJobOptions map[string]JobOptions
	// Telemetry traces what the producer does; nothing unless given.
	Telemetry Telemetry
	// Logger receives log lines. Defaults to none.
	Logger Logger
	// Now is the clock; time.Now unless given. For tests.
	Now func() time.Time
}

// FlowProducer adds jobs with their children, over any queues of one server
// (BullMQ: FlowProducer). It is safe for concurrent use.
type FlowProducer struct {
	core *core
	o    FlowProducerOptions

	dialects sync.Map // Dialect of a queue that was met, by its key prefix
}

// NewFlowProducer connects to where the queues live. ctx bounds the call, not the
// life of the FlowProducer.
func NewFlowProducer(ctx context.Context, options *FlowProducerOptions) (*FlowProducer, error) {
	var o FlowProducerOptions
	if options != nil {
		o = *options
	}
	for queue, defaults := range o.DefaultJobOptions {
		if err := defaults.checkDefaults(); err != nil {
			return nil, fmt.Errorf("bullmq: flow producer: queue %.80q: %w", queue, err)
		}
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	// The keys of this core are nobody's; each node has its own. With braces a cluster takes them.
	c, err := newCore(ctx, "{flow}", o.Prefix, o.Connection, o.URL, o.Now, V6, o.Logger.with())
	if err != nil {
		return nil, err
	}
	c.trace = tracer{telemetry: o.Telemetry}
	c.watchHealth(nil)
	return &FlowProducer{core: c, o: o}, nil
}

// Close ends the connection, unless the client is the caller's own.
func (p *FlowProducer) Close() error {
	p.core.conn.Close()
	return nil
}

// Add adds a job with all its children, in one transaction: all of them or
// none, also after ErrMaybeAdded. Jobs without an id get a UUID (BullMQ:
// FlowProducer.add).
func (p *FlowProducer) Add(ctx context.Context, flow Flow) (root *FlowNode, err error) {
	ctx, span := p.tracer(flow.QueueName).start(ctx, SpanProducer, "addFlow")
	defer span.end(&err)
	set(span, attrFlowName, flow.Name)
	nodes, refusals, err := p.add(ctx, []Flow{flow})
	if err != nil {
		return nil, err
	}
	return nodes[0], refusals[0]
}

// AddBulk adds several flows in one transaction (BullMQ: FlowProducer.addBulk).
func (p *FlowProducer) AddBulk(ctx context.Context, flows []Flow) (roots []*FlowNode, err error) {
	ctx, span := p.core.trace.start(ctx, SpanProducer, "addBulkFlows")
	defer span.end(&err)
	if span.on() {
		names := make([]string, len(flows))
		for i, flow := range flows {
			names[i] = flow.Name
		}
		set(span, attrBulkNames, strings.Join(names, ","))
		set(span, attrBulkCount, len(flows))
	}
	nodes, refusals, err := p.add(ctx, flows)
	if err != nil {
		return nil, err
	}
	return nodes, errors.Join(refusals...)
}

// tracer starts spans for a queue, on this producer's behalf.
func (p *FlowProducer) tracer(queue string) tracer {
	return tracer{p.core.trace.telemetry, queue}
}

// planned is a node on its way into a transaction.
type planned struct {
	ctx    context.Context // with the span of the node above it
	flow   *Flow
	parent *ParentRef
	node   *FlowNode
}

func (p *FlowProducer) add(ctx context.Context, flows []Flow) ([]*FlowNode, []error, error) {
	roots := make([]*FlowNode, len(flows))
	var level []planned
	for i := range flows {
		roots[i] = &FlowNode{}
		var parent *ParentRef
		if flows[i].Options != nil {
			own := *flows[i].Options
			own.settle()
			parent = own.Parent
		}
		level = append(level, planned{ctx, &flows[i], parent, roots[i]})
	}
	var jobs []backend.FlowJob
	var nodes []*FlowNode // of the jobs
	// Level by level, so that a parent is there before its children.
	for len(level) > 0 {
		var below []planned
		for _, n := range level {
			job, inside, err := p.node(n)
			if err != nil {
				return nil, nil, fmt.Errorf("bullmq: no job of the flow was added: %.80q of queue %.80q: %w", n.flow.Name, n.flow.QueueName, err)
			}
			jobs, nodes = append(jobs, job), append(nodes, n.node)
			parent := n.node.Job.AsParent()
			for i := range n.flow.Children {
				child := &FlowNode{}
				n.node.Children = append(n.node.Children, child)
				below = append(below, planned{inside, &n.flow.Children[i], parent, child})
			}
		}
		level = below
	}
	for i, root := range roots {
		first := roots[0].Job.core.keys
		if err := root.Job.core.store.CheckReach(first.prefix, first.queue); err != nil {
			return nil, nil, fmt.Errorf("bullmq: no job of the flows was added: %.80q of queue %.80q: %w", flows[i].Name, flows[i].QueueName, err)
		}
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("bullmq: no job of the flow was added: %w", context.Cause(ctx))
	}
	results, err := p.core.store.AddFlow(ctx, jobs, p.core.now())
	if mayHaveRun(err) || classify(err) == backend.Forbidden { // without the right to MULTI, each job is added by itself
		err = &lostAnswer{err}
	}
	if err != nil {
		return nil, nil, err
	}
	for i, node := range nodes {
		if node.Refused = results[i].Err; node.Refused == nil {
			id := node.Job.ID // a child keeps the id by which its parent knows it
			node.Job.added(results[i])
			node.Job.ID = id
		}
	}
	refusals := make([]error, len(roots))
	for i, root := range roots {
		refusals[i] = root.Refused
		if root.Refused == nil {
			root.Job.ID = results[i].JobID
		}
	}
	return roots, refusals, nil
}

// node checks and encodes the job of one node. The returned context has its span.
func (p *FlowProducer) node(n planned) (_ backend.FlowJob, ctx context.Context, err error) {
	ctx, span := p.tracer(n.flow.QueueName).start(n.ctx, SpanProducer, "addNode")
	defer span.end(&err)
	queue, err := p.queue(ctx, n.flow.QueueName, n.flow.Prefix)
	if err != nil {
		return backend.FlowJob{}, ctx, err
	}
	own := JobOptions{}
	if n.flow.Options != nil {
		own = *n.flow.Options
		own.settle()
	}
	if d := own.Deduplication; d != nil && len(n.flow.Children) > 0 && queue.core.dialect == V6 {
		return backend.FlowJob{}, ctx, errors.New("Deduplication can't be set on a job with children")
	}
	own.Parent = n.parent
	if n.parent == nil {
		// The queue's defaults have no say in who is whose parent.
		queue.defaults.Parent = nil
	}
	o := queue.options(&own)
	metadata := ""
	if n.flow.Options != nil { // BullMQ gives a node without any options no context either
		metadata = p.core.trace.inject(ctx)
	}
	o.carry(metadata, n.flow.Options)
	job, add, err := queue.prepare(n.flow.Name, n.flow.Data, &o)
	if err != nil {
		return backend.FlowJob{}, ctx, err
	}
	if add.ID == "" {
		add.ID = uuid.NewString()
		job.ID = add.ID
	}
	if len(n.flow.Children) > 0 {
		add.State = backend.WaitingChildren
	}
	n.node.Job = job
	span.describe(job)
	return backend.FlowJob{Queue: queue.core.store, Add: &add}, ctx, nil
}

// queue is a node's queue, on this producer's connection.
func (p *FlowProducer) queue(ctx context.Context, name, prefix string) (*Queue, error) {
	if prefix == "" {
		prefix = p.o.Prefix
	}
	c, err := p.core.sibling(prefix, name)
	if err != nil {
		return nil, err
	}
	dialect := p.o.Dialect
	if known, ok := p.dialects.Load(c.keys.base); ok {
		dialect = known.(Dialect)
	}
	if err := c.setDialect(ctx, dialect); err != nil {
		return nil, err
	}
	p.dialects.Store(c.keys.base, c.dialect)
	return &Queue{core: c, defaults: p.o.DefaultJobOptions[name].asDefaults()}, nil
}

// FlowQuery says which flow to read, and how much of it.
type FlowQuery struct {
	QueueName   string
	Prefix      string // that of the FlowProducer unless given
	ID          string
	Depth       int // levels; 10 for 0
	MaxChildren int // about how many of each kind a job shows; 20 for 0
}

// Flow reads a job with its children; nil when there is no such job (BullMQ:
// getFlow).
func (p *FlowProducer) Flow(ctx context.Context, query FlowQuery) (*FlowNode, error) {
	if err := cmp.Or(checkCount("Depth", query.Depth, "10 levels"), checkCount("MaxChildren", query.MaxChildren, "20")); err != nil {
		return nil, fmt.Errorf("bullmq: flow %.80q of queue %.80q was not read: %w", query.ID, query.QueueName, err)
	}
	if query.Depth == 0 {
		query.Depth = 10
	}
	if query.MaxChildren == 0 {
		query.MaxChildren = 20
	}
	queue, err := p.queue(ctx, query.QueueName, query.Prefix)
	if err != nil {
		return nil, err
	}
	job, err := queue.Job(ctx, query.ID)
	if errors.Is(err, ErrJobNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	node := &FlowNode{Job: job}
	if query.Depth == 1 {
		return node, nil
	}
	from := &backend.Scan{Count: query.MaxChildren}
	page, err := queue.core.store.ScanChildren(ctx, query.ID, backend.ChildScan{Processed: from, Pending: from, Ignored: from, Failed: from})
	if err != nil {
		return nil, err
	}
	for _, ref := range slices.Concat(childRefs(page.Processed), page.Pending, page.Failed, childRefs(page.Ignored)) {
		if !ref.IsComplete() {
			return nil, noJobKey(ref)
		}
		child := query
		child.Depth--
		child.Prefix, child.QueueName, child.ID = ref.Prefix, ref.Queue, ref.ID
		below, err := p.Flow(ctx, child)
		if err != nil {
			return nil, err
		}
		if below != nil {
			node.Children = append(node.Children, below)
		}
	}
	return node, nil
}

func childRefs(children []backend.ChildResult) []backend.JobRef {
	refs := make([]backend.JobRef, len(children))
	for i, child := range children {
		refs[i] = child.Child
	}
	return refs
}

// noJobKey is the error of a reference that names no job.
func noJobKey(ref backend.JobRef) error {
	return fmt.Errorf("bullmq: %.80q is no key of a job", ref.String())
}

// Chain makes one flow of steps that run one after the other: each step is a
// child of the next one, and the last one, the root, is what Add answers with. A
// step reads what the one before it has returned with ChildValue; in Node that
// is the one value of job.getChildrenValues().
//
// A step that fails for good stops the chain where it is: the next step waits
// until the failed one is retried and completes. With one of these options on
// the failed step, the next one
//
//   - FailParentOnFailure: fails too, without being run;
//   - ContinueParentOnFailure, IgnoreDependencyOnFailure: runs, and finds the reason;
//   - RemoveDependencyOnFailure: runs, and finds nothing.
//
// It also runs, and finds nothing, when the step before it is removed, for
// instance by its own KeepFailed. To give up a chain, remove its root: all steps go with it,
// unless a worker holds one of them.
//
// A step may have children of its own, as those made by FanOut. It waits for
// them and the step before it alike; they don't wait for that.
func Chain(steps ...Flow) Flow {
	var chain Flow
	for i, step := range steps {
		if i > 0 {
			step = FanOut(step, chain)
		}
		chain = step
	}
	return chain
}

// FanOut makes one flow of branches that run at the same time and a job, join,
// that runs when all of them have ended; it reads what they have returned with
// Children. A branch may be a Chain. What happens to join when a branch fails is
// that branch's option, as in a Chain; with ContinueParentOnFailure, join runs
// at once, while the other branches may still run.
func FanOut(join Flow, branches ...Flow) Flow {
	join.Children = slices.Concat(join.Children, branches)
	return join
}
