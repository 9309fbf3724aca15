package scripts

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	registerQueues   = load("registerQueues")
	unregisterQueues = load("unregisterQueues")
	listenToRegistry = load("listenToRegistry")
	oldRegistrations = load("oldRegistrations")
)

// maxNames is the maximum number of names in one call.
const maxNames = 500

// Registry calls the commands of a registry of queues. It is safe for concurrent use and
// owns no connection.
type Registry struct {
	client Client
	prefix string // of the queues, such as bull
	base   string // of its own keys, such as bull:tenants@x:
}

var _ backend.Registry = (*Registry)(nil)

// NewRegistry returns a registry of queues with a prefix.
func NewRegistry(client Client, prefix, name string) *Registry {
	return &Registry{client, prefix, prefix + ":" + name + "@x:"}
}

// run calls a command, as [Store.run] does. Two keys are declared, for the reason that
// [Group.run] gives. The first of them never exists.
func (r *Registry) run(ctx context.Context, c *command, args ...string) (rueidis.RedisMessage, error) {
	args = append([]string{r.base, decimal(time.Now().UnixMilli())}, args...)
	c.check(args)
	f, keys := &c.forms[V6], []string{r.base, r.base + "queues"}
	result := r.client.Do(ctx, r.client.B().Evalsha().Sha1(f.sha).Numkeys(2).Key(keys...).Arg(args...).Build())
	if IsNoScript(result.Error()) {
		result = r.client.Do(ctx, r.client.B().Eval().Script(f.text).Numkeys(2).Key(keys...).Arg(args...).Build())
	}
	message, err := result.ToMessage()
	if err != nil {
		return message, failed(c, r.base, err)
	}
	return message, nil
}

// Register adds queues, or renews their entries.
func (r *Registry) Register(ctx context.Context, names []string) error {
	for some := range slices.Chunk(names, maxNames) {
		if _, err := r.run(ctx, registerQueues, some...); err != nil {
			return err
		}
	}
	return nil
}

// Unregister removes queues.
func (r *Registry) Unregister(ctx context.Context, names []string) error {
	_, err := r.remove(ctx, "", names)
	return err
}

// remove removes queues that were registered before a time, or at any time, and returns
// their names.
func (r *Registry) remove(ctx context.Context, before string, names []string) (removed []string, err error) {
	for some := range slices.Chunk(names, maxNames) {
		reply, err := r.run(ctx, unregisterQueues, append([]string{before}, some...)...)
		if err != nil {
			return removed, err
		}
		removed = append(removed, texts(reply)...)
	}
	return removed, nil
}

// Queues returns the names of all queues, also of those that were announced.
func (r *Registry) Queues(ctx context.Context) (names []string, err error) {
	for _, result := range r.client.DoMulti(ctx,
		r.client.B().Zrange().Key(r.base+"queues").Min("0").Max("-1").Build(),
		r.client.B().Zrange().Key(r.base+"new").Min("0").Max("-1").Build(),
	) {
		some, err := result.AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("bullmq: the queues of %s: %w", shown(r.base), err)
		}
		names = append(names, some...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// WakeKeys returns the keys for which a listener waits.
func (r *Registry) WakeKeys(listener string) []string {
	return []string{r.base + "wake:" + listener, r.base + "new"}
}

// Listen reads the queues for a listener, and renews its lease.
func (r *Registry) Listen(ctx context.Context, l backend.Listen) (heard backend.Listened, err error) {
	since, keys := "", r.WakeKeys(l.Listener)
	if !l.Since.IsZero() && (l.Wake.Marker != keys[0] || l.Wake.Member != "all") {
		since = decimal(l.Since.UnixMilli())
	}
	args := []string{l.Listener, decimal(l.Lease.Milliseconds()), since}
	if l.Wake.Marker == keys[1] {
		args = append(args, l.Wake.Member)
	}
	message, err := r.run(ctx, listenToRegistry, args...)
	if err != nil {
		return heard, err
	}
	reply, err := message.ToArray()
	if err == nil && len(reply) < 3 {
		err = fmt.Errorf("%d values, not 3", len(reply))
	}
	if err != nil {
		return heard, failed(listenToRegistry, r.base, fmt.Errorf("the reply has an unexpected form: %w", err))
	}
	now, _ := reply[0].AsInt64()
	all, _ := reply[1].AsInt64()
	return backend.Listened{Names: texts(reply[2]), All: all == 1, At: time.UnixMilli(now)}, nil
}

// StopListening ends the lease of a listener.
func (r *Registry) StopListening(ctx context.Context, listener string) error {
	for _, result := range r.client.DoMulti(ctx,
		r.client.B().Zrem().Key(r.base+"listeners").Member(listener).Build(),
		r.client.B().Del().Key(r.WakeKeys(listener)[0]).Build(),
	) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("bullmq: end listening to %s: %w", shown(r.base), err)
		}
	}
	return nil
}

// keysOfQueues are the keys of which a queue has at least one, unless it has vanished.
var keysOfQueues = []string{"meta", "id", "wait", "paused", "active", "delayed", "prioritized", "waiting-children", "repeat"}

// RemoveVanished removes queues that have no keys any more.
func (r *Registry) RemoveVanished(ctx context.Context, interval, age time.Duration) ([]string, error) {
	reply, err := r.run(ctx, oldRegistrations, decimal(interval.Milliseconds()), decimal(age.Milliseconds()))
	old := texts(reply)
	if err != nil || len(old) < 2 {
		return nil, err
	}
	before, names := old[0], old[1:]
	cluster, ok := r.client.(interface{ IsCluster() bool })
	if ok && cluster.IsCluster() { // where a queue without a hash tag can't exist, nor be asked about
		names = slices.DeleteFunc(names, func(name string) bool { return wire.HashTag(r.prefix+":"+name+":") == "" })
	}
	var vanished []string
	for some := range slices.Chunk(names, maxNames) {
		commands := make([]rueidis.Completed, len(some))
		for i, name := range some {
			keys := make([]string, len(keysOfQueues))
			for k, suffix := range keysOfQueues {
				keys[k] = r.prefix + ":" + name + ":" + suffix
			}
			commands[i] = r.client.B().Exists().Key(keys...).Build()
		}
		for i, result := range r.client.DoMulti(ctx, commands...) {
			found, err := result.AsInt64()
			if err != nil {
				return nil, fmt.Errorf("bullmq: the keys of %s:%s: %w", r.prefix, some[i], err)
			}
			if found == 0 {
				vanished = append(vanished, some[i])
			}
		}
	}
	return r.remove(ctx, before, vanished)
}
