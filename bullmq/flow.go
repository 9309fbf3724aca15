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

// Flow is a job with children that must finish before it runs (BullMQ: FlowJob).
// Children may belong to other queues and may have children themselves.
type Flow struct {
	Name      string
	QueueName string
	// Prefix is the prefix of the queue.
	// Defaults to the prefix of the FlowProducer.
	Prefix  string
	Data    any
	Options *JobOptions
	// Children run before the job. If a child fails permanently, its JobOptions.OnFailure
	// selects what happens to the job. By default the job waits until the child is
	// retried and completes.
	Children []Flow
}

// FlowNode is a job of a flow that was added or read, with its children.
type FlowNode struct {
	// Refused is non-nil if the job was not attached to its parent, because a job
	// with its id exists and has another parent ([ErrParentNotReplaceable]). The
	// parent in this flow waits for the child all the same. The parent stays in the
	// state waiting-children until the program moves it.
	Refused  error
	Job      *Job
	Children []*FlowNode
}

// FlowProducerOptions configures a [FlowProducer]. A nil pointer and the zero value
// select the defaults.
type FlowProducerOptions struct {
	// Connection is a connection to share with other queues and workers. Its
	// creator closes it.
	// Defaults to a separate connection to URL.
	Connection *Connection
	// URL is the address of Redis, used if Connection is nil. Printing the options
	// shows it in full, including a password.
	// Defaults to [DefaultURL].
	URL string
	// Prefix is the first part of all keys. All clients of a queue must use the
	// same one.
	// Defaults to [DefaultPrefix].
	Prefix string
	// Dialect selects the BullMQ major version whose data layout is written.
	// Defaults to [Detect], for each queue.
	Dialect Dialect
	// DefaultJobOptions apply to the jobs of a queue, by the queue's name. Options
	// of a job override them (BullMQ: queuesOptions).
	DefaultJobOptions map[string]JobOptions
	// AddWait is how long Add and AddBulk keep retrying while Redis is unreachable
	// or can't serve, counted from the call.
	//
	// They retry only if nothing was added: Redis has refused the call, or it was not
	// sent. If the outcome of an attempt is unknown, they return [ErrMaybeAdded], even if
	// all jobs have a JobID.
	//
	// AddWait also bounds the wait for a Redis that accepts connections but does not
	// reply, as QueueOptions.AddWait does.
	// Defaults to 0, which fails at once.
	AddWait time.Duration
	// OnHealth is called when Redis becomes unreachable and when it is reachable
	// again. Calls do not overlap.
	OnHealth func(Health)
	// Middleware wraps Add and AddBulk. The first one is the outermost. It gets the jobs
	// of all queues.
	Middleware []AddMiddleware
	// Telemetry records traces of the producer.
	// Defaults to none.
	Telemetry Telemetry
	// Logger receives log lines.
	// Defaults to none.
	Logger Logger
	// Now returns the current time. Tests may replace it.
	// Defaults to [time.Now].
	Now func() time.Time
}

// FlowProducer adds jobs with their children, to any queues of one server (BullMQ:
// FlowProducer). It is safe for concurrent use.
type FlowProducer struct {
	core *core
	o    FlowProducerOptions
	wait addWait

	dialects sync.Map // Dialect of each queue used so far, by its key prefix
}

// NewFlowProducer connects to the server of the queues and returns a FlowProducer.
// options may be nil. ctx bounds this call only.
func NewFlowProducer(ctx context.Context, options *FlowProducerOptions) (*FlowProducer, error) {
	var o FlowProducerOptions
	if options != nil {
		o = *options
	}
	if err := cmp.Or(o.Dialect.check(), checkMillis("AddWait", o.AddWait, 0)); err != nil {
		return nil, fmt.Errorf("bullmq: flow producer: %w", err)
	}
	for queue, defaults := range o.DefaultJobOptions {
		if err := defaults.checkDefaults(); err != nil {
			return nil, fmt.Errorf("bullmq: flow producer: queue %.80q: %w", queue, err)
		}
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	// No key of this queue is used, since each node names its own queue. The braces make the name valid in a cluster.
	c, err := newCore(ctx, "{flow}", o.Prefix, o.Connection, o.URL, o.Now, V6, o.Logger.with())
	if err != nil {
		return nil, err
	}
	c.trace = tracer{telemetry: o.Telemetry}
	c.watchHealth(o.OnHealth)
	return &FlowProducer{core: c, o: o, wait: newAddWait(o.AddWait)}, nil
}

// Close closes the connection, unless the caller passed it in.
func (p *FlowProducer) Close() error {
	p.core.conn.Close()
	return nil
}

// Add adds a job with all its children in one transaction (BullMQ:
// FlowProducer.add). Jobs without an id get a UUID.
//
// If Redis can't be reached, Add fails at once, or after FlowProducerOptions.AddWait. If
// it returns [ErrMaybeAdded], either all jobs were added or no job was. If the Redis user
// may not call MULTI, only some of the jobs may have been added.
//
// A root with a JobOptions.Parent may be refused, as FlowNode.Refused describes. Add then
// returns the flow and the error. After any other error no job was added.
func (p *FlowProducer) Add(ctx context.Context, flow Flow) (root *FlowNode, err error) {
	ctx, span := p.tracer(flow.QueueName).start(ctx, SpanProducer, "addFlow")
	defer span.end(&err)
	setAttr(span, attrFlowName, flow.Name)
	nodes, refusals, err := p.addThrough(ctx, []Flow{flow})
	if err != nil {
		return nil, err
	}
	return nodes[0], refusals[0]
}

// AddBulk adds several flows in one transaction, as [FlowProducer.Add] adds one
// (BullMQ: FlowProducer.addBulk).
func (p *FlowProducer) AddBulk(ctx context.Context, flows []Flow) (roots []*FlowNode, err error) {
	ctx, span := p.core.trace.start(ctx, SpanProducer, "addBulkFlows")
	defer span.end(&err)
	if span.isRecording() {
		names := make([]string, len(flows))
		for i, flow := range flows {
			names[i] = flow.Name
		}
		setAttr(span, attrBulkNames, strings.Join(names, ","))
		setAttr(span, attrBulkCount, len(flows))
	}
	nodes, refusals, err := p.addThrough(ctx, flows)
	if err != nil {
		return nil, err
	}
	return nodes, errors.Join(refusals...)
}

// tracer returns a tracer that starts spans for a queue.
func (p *FlowProducer) tracer(queue string) tracer {
	return tracer{p.core.trace.telemetry, queue}
}

// planned is a node that is to be encoded.
type planned struct {
	ctx    context.Context // with the span of the parent node
	flow   *Flow
	parent *ParentRef
	node   *FlowNode
}

// addThrough adds flows through the producer's middleware.
func (p *FlowProducer) addThrough(ctx context.Context, flows []Flow) (nodes []*FlowNode, refusals []error, err error) {
	if len(p.o.Middleware) == 0 || len(flows) == 0 {
		return p.add(ctx, flows)
	}
	err = flowMiddleware(ctx, flows, p.o.Middleware, func(ctx context.Context, flows []Flow) (_ []*FlowNode, err error) {
		nodes, refusals, err = p.add(ctx, flows)
		return nodes, err
	})
	return nodes, refusals, err
}

func (p *FlowProducer) add(ctx context.Context, flows []Flow) ([]*FlowNode, []error, error) {
	begun := time.Now()
	ctx, cancel := p.wait.within(ctx, begun)
	defer cancel()
	retry := p.wait.retry(ctx, p.core, begun)
	roots := make([]*FlowNode, len(flows))
	var level []planned
	for i := range flows {
		roots[i] = &FlowNode{}
		var parent *ParentRef
		if flows[i].Options != nil {
			own := *flows[i].Options
			own.normalize()
			parent = own.Parent
		}
		level = append(level, planned{ctx, &flows[i], parent, roots[i]})
	}
	var jobs []backend.FlowJob
	var nodes []*FlowNode // in the order of jobs
	// The scripts require that a parent is added before its children.
	for len(level) > 0 {
		var below []planned
		for _, n := range level {
			job, inside, err := p.node(n, retry)
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
	results, err := p.send(ctx, jobs, retry)
	if err != nil {
		return nil, nil, err
	}
	for i, node := range nodes {
		if node.Refused = results[i].Err; node.Refused == nil {
			id := node.Job.ID // added may set the id of an existing job; the parent refers to the child by this one
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

// send adds the jobs in one transaction. It sends them again only if nothing was added.
func (p *FlowProducer) send(ctx context.Context, jobs []backend.FlowJob, retry *addRetry) ([]backend.AddResult, error) {
	for {
		results, err := p.core.store.AddFlow(ctx, jobs, p.core.now())
		if err == nil {
			return results, nil
		}
		lost := mayHaveRun(err)
		if !retry.allowed(!lost, err) || !retry.wait() {
			return nil, retry.finalError(lost, err)
		}
	}
}

// node checks and encodes the job of a node. The returned context has its span.
func (p *FlowProducer) node(n planned, retry *addRetry) (_ backend.FlowJob, ctx context.Context, err error) {
	ctx, span := p.tracer(n.flow.QueueName).start(n.ctx, SpanProducer, "addNode")
	defer span.end(&err)
	queue, err := p.queue(ctx, n.flow.QueueName, n.flow.Prefix, retry)
	if err != nil {
		return backend.FlowJob{}, ctx, err
	}
	own := JobOptions{}
	if n.flow.Options != nil {
		own = *n.flow.Options
		own.normalize()
	}
	if d := own.Deduplication; d != nil && len(n.flow.Children) > 0 && queue.core.dialect == V6 {
		return backend.FlowJob{}, ctx, errors.New("Deduplication can't be set on a job with children")
	}
	own.Parent = n.parent
	if n.parent == nil {
		// A parent among the queue's defaults does not apply to the root of a flow.
		queue.defaults.Parent = nil
	}
	o := queue.options(&own)
	metadata := ""
	if n.flow.Options != nil { // in BullMQ, too, a node without options gets no trace context
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

// queue returns a node's queue on this producer's connection. It reads the dialect of the
// queue if it is not known.
func (p *FlowProducer) queue(ctx context.Context, name, prefix string, retry *addRetry) (*Queue, error) {
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
	err = c.setDialect(ctx, dialect)
	for retry.allowed(true, err) && retry.wait() {
		err = c.setDialect(ctx, dialect)
	}
	if err != nil {
		return nil, retry.finalError(false, err)
	}
	p.dialects.Store(c.keys.base, c.dialect)
	return &Queue{core: c, defaults: p.o.DefaultJobOptions[name].asDefaults()}, nil
}

// Chain returns a flow of steps that run one after the other. Each step is a child
// of the next one. The last step is the root, which [FlowProducer.Add] returns. A
// step reads the result of the previous step with [ChildValue]; in Node it is the
// only value of job.getChildrenValues().
//
// If a step fails permanently, the next step waits until the failed step is retried and
// completes. JobOptions.OnFailure of the failed step selects something else:
//
//   - [FailParent]: the next step fails too, without running.
//   - [ContinueParent], [IgnoreDependency]: the next step runs and can read the reason
//     of the failure.
//   - [RemoveDependency]: the next step runs without a result of the failed step.
//
// A step also runs without a result if the previous step was removed, for instance
// by its KeepFailed option. To cancel a chain, remove its root. This removes all
// steps, unless a worker runs one of them.
//
// A step may have other children, such as the branches of a [FanOut]. The step waits for
// these children and for the previous step. The children do not wait for the previous
// step.
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

// FanOut returns a flow of branches that run at the same time, and a job, join, that
// runs after all of them have finished. join reads their results with [Children]. A
// branch may be a [Chain]. OnFailure of a branch selects what happens to join if the
// branch fails, as in a Chain. With [ContinueParent], join runs at once, while other
// branches may still run.
func FanOut(join Flow, branches ...Flow) Flow {
	join.Children = slices.Concat(join.Children, branches)
	return join
}
