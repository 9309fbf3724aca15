package scripts

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var (
	addPlainJobsTo    = load("addPlainJobsTo")
	serveQueues       = load("serveQueues")
	resolveFetches    = load("resolveFetches")
	lookAtQueues      = load("lookAtQueues")
	extendLocksOf     = load("extendLocksOf")
	moveStalledJobsOf = load("moveStalledJobsOf")
)

// Group calls the commands that concern several queues. Each call names its queues. A Group
// is safe for concurrent use and owns no connection.
type Group struct {
	client Client
	Dialect
}

var _ backend.Group = (*Group)(nil)

// NewGroup returns a Group that writes in a dialect.
func NewGroup(client Client, dialect Dialect) *Group { return &Group{client, dialect} }

// run calls a command, as [Store.run] does.
//
// As keys it passes the bases of the queues, which never exist as keys, and the key meta of
// the first queue, which may exist. So while a cluster moves the slot, neither node has all
// of these keys, and both nodes refuse the call with TRYAGAIN. With a single key, the new node
// would run the call, even if it has only some of the queues' keys.
func (g *Group) run(ctx context.Context, c *command, queues []string, args ...string) ([]rueidis.RedisMessage, error) {
	message, err := g.message(ctx, c, queues, args...)
	if err != nil {
		return nil, err
	}
	reply, err := message.ToArray()
	if err != nil {
		return nil, aboutQueues(c.name, queues, err)
	}
	return reply, nil
}

// message calls a command whose reply need not be a list.
func (g *Group) message(ctx context.Context, c *command, queues []string, args ...string) (rueidis.RedisMessage, error) {
	c.check(args)
	f, keys := &c.forms[g.Dialect], append(append(make([]string, 0, len(queues)+1), queues...), queues[0]+"meta")
	result := g.client.Do(ctx, g.client.B().Evalsha().Sha1(f.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if IsNoScript(result.Error()) {
		result = g.client.Do(ctx, g.client.B().Eval().Script(f.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	message, err := result.ToMessage()
	if err != nil {
		return message, aboutQueues(c.name, queues, err)
	}
	return message, nil
}

// aboutQueues returns an error of a call about some queues.
func aboutQueues(what string, queues []string, err error) error {
	more := ""
	if len(queues) > 1 {
		more = fmt.Sprintf(" and %d more queues", len(queues)-1)
	}
	return fmt.Errorf("bullmq: %s on %s%s: %w", what, shown(queues[0]), more, err)
}

// each calls read with the reply of each queue. It returns an error if their number differs.
func (g *Group) each(c *command, queues []string, reply []rueidis.RedisMessage, read func(i int, reply rueidis.RedisMessage)) error {
	if len(reply) < len(queues) {
		return aboutQueues(c.name, queues, fmt.Errorf("the reply has an unexpected form: %d queues", len(reply)))
	}
	for i := range queues {
		read(i, reply[i])
	}
	return nil
}

// errorOf reads the reply of one queue, which is a list or the text of an error.
func errorOf(c *command, queue string, reply rueidis.RedisMessage) ([]rueidis.RedisMessage, error) {
	list, err := reply.ToArray()
	if err != nil {
		return nil, fmt.Errorf("bullmq: %s: %w", c.name, &backend.QueueError{Queue: queue, Text: text(reply)})
	}
	return list, nil
}
