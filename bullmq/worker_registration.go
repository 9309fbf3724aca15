package bullmq

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/safe"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/timing"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// RegistrationOptions configures how a worker registers itself in Redis, where
// [Queue.Workers] and [ListWorkers] find it. A nil pointer and the zero value select the
// defaults.
//
// A registered worker has a lease, which it renews at intervals while it runs. It is
// removed when it stops. A worker whose process dies is listed until its lease ends, by the
// clock of Redis.
type RegistrationOptions struct {
	// Skip leaves the worker unregistered. [Queue.Workers] then lists it by its connection
	// only.
	Skip bool
	// Interval is how often the lease is renewed, in one call to Redis.
	// Defaults to 10 seconds.
	Interval time.Duration
	// Lease is how long a worker is listed after the last renewal. It must be longer than
	// Interval.
	// Defaults to three times the Interval.
	Lease time.Duration
	// Version is the version of the program.
	// Defaults to that of its main module, or the revision that it was built from.
	Version string
	// Stack, Region and Capabilities describe where the worker runs and what it can do, such
	// as "production", "eu-west" and "gpu". They affect which jobs the worker fetches only if it
	// is made by [NewRoutedWorker].
	Stack        string
	Region       string
	Capabilities []string
}

// fill checks the options and sets the defaults.
func (o *RegistrationOptions) fill() error {
	o.Interval = cmp.Or(o.Interval, 10*time.Second)
	o.Lease = cmp.Or(o.Lease, 3*o.Interval)
	o.Version = cmp.Or(o.Version, programVersion())
	o.Capabilities = slices.Clone(o.Capabilities)
	if err := cmp.Or(
		checkMillis("Registration.Interval", o.Interval, time.Millisecond), checkMillis("Registration.Lease", o.Lease, time.Millisecond),
		checkText("Registration.Version", o.Version), checkText("Registration.Stack", o.Stack), checkText("Registration.Region", o.Region),
	); err != nil {
		return err
	}
	if o.Lease <= o.Interval {
		return fmt.Errorf("Registration.Lease %v must be longer than Registration.Interval %v", o.Lease, o.Interval)
	}
	for _, capability := range o.Capabilities {
		if capability == "" {
			return fmt.Errorf("Registration.Capabilities has an empty text")
		}
		if err := checkText("Registration.Capabilities", capability); err != nil {
			return err
		}
	}
	return nil
}

// workerRecord is what a registered worker tells of itself, as JSON.
type workerRecord struct {
	ID           string   `json:"id"`
	Name         string   `json:"name,omitempty"`
	Host         string   `json:"host,omitempty"`
	PID          int      `json:"pid,omitempty"`
	Version      string   `json:"version,omitempty"`
	Library      string   `json:"library,omitempty"`
	Home         string   `json:"home,omitempty"` // the queue in the names of its connections, unless it is the first of queues
	Queues       []string `json:"queues"`         // at most listedQueues
	QueueCount   int      `json:"queueCount"`
	Stack        string   `json:"stack,omitempty"`
	Region       string   `json:"region,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	Routed       string   `json:"routed,omitempty"` // the queue of which it serves all routes that it satisfies
	Concurrency  int      `json:"concurrency"`
	Running      int      `json:"running"`
	Paused       bool     `json:"paused,omitempty"`
	Stopping     bool     `json:"stopping,omitempty"`
	Started      int64    `json:"started"`           // ms, by the clock of the worker
	Lease        int64    `json:"lease"`             // ms
	Clients      []int64  `json:"clients,omitempty"` // ids in CLIENT LIST of the connections on which it waits
}

// listedQueues is the maximum number of queues that a record names.
const listedQueues = 100

// registration keeps a host registered for the queues that it serves.
type registration struct {
	host        *host
	o           RegistrationOptions
	registry    backend.WorkerRegistry
	home        string          // the queue in the names of its connections
	queues      func() []string // names of the queues that are served, in an order that stays
	connections func() []int64  // ids in CLIENT LIST of the connections on which the host waits
	changed     <-chan struct{} // receives after queues have been added or removed; may be nil
	fetching    context.Context // ends when the host stops
	loop        *safe.Background

	mu      sync.Mutex // held during a call
	started time.Time
	held    map[string]backend.WorkerLease // by hash tag on a cluster; otherwise one, by ""
	refused bool                           // the last call was refused, and this was logged
}

// startRegistration registers a host, and keeps it registered until end is called. It returns
// nil if the host is not to be registered. ctx is that of Run. home is the queue in the names
// of the host's connections. queues returns the names of the queues that it serves, and
// connections the ids in CLIENT LIST of the connections on which it waits. changed receives
// when the queues change; it is nil if they don't.
func startRegistration(ctx context.Context, h *host, home string, queues func() []string, changed <-chan struct{}, connections func() []int64) *registration {
	if h.options.Registration.Skip || h.home.registry == nil {
		return nil
	}
	r := &registration{
		host: h, o: *h.options.Registration, registry: h.home.registry, home: home, queues: queues, changed: changed, connections: connections, fetching: ctx,
		started: h.home.now(), held: map[string]backend.WorkerLease{},
	}
	r.loop = safe.Go(h.home.trace.outliving(ctx), r.run)
	return r
}

// registrationShare bounds the part of the time that renewals after changes of the queues take:
// one in so many.
const registrationShare = 20

func (r *registration) run(ctx context.Context) {
	var outage timing.Backoff
	for ctx.Err() == nil {
		wait, changed := r.o.Interval, (<-chan struct{})(nil)
		begun := time.Now()
		err := r.renew()
		took := time.Since(begun)
		switch {
		case err == nil:
			outage.Succeeded()
			changed = r.changed
		case classify(err) == backend.Exhausted:
		case classify(err).Lasting(): // such as for want of permission
			wait = max(wait, timing.RefusedRegistrationPause)
		default:
			wait = min(wait, outage.Next())
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
			// Further queues often follow. Renewals for them take a limited part of the time.
			timing.Sleep(ctx, min(wait, max(timing.RegistrationDelay, registrationShare*took)))
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// renew registers the host, or renews its lease. The call outlives the loop, so that none is
// in flight when the host is removed.
func (r *registration) renew() error {
	ctx, cancel := context.WithTimeout(context.Background(), timing.CallTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	leases := r.leases()
	results := make([]heldLease, len(leases))
	var all sync.WaitGroup
	for i, lease := range leases { // at the same time, since a node of a cluster may not reply
		before := r.held[r.tagOf(lease.Home)]
		all.Go(func() { results[i] = r.renewOne(ctx, before, lease) })
	}
	all.Wait()
	var failed error
	for _, result := range results {
		r.held[r.tagOf(result.lease.Home)] = result.lease
		failed = cmp.Or(failed, result.err)
	}
	if failed == nil {
		r.refused = false
		return nil
	}
	if classify(failed).Lasting() && !r.refused {
		r.refused = true
		r.host.log.Debug("the worker could not be registered; Queue.Workers lists it by its connection only; docs/security.md names the permissions that it needs", logError, failed)
	}
	return failed
}

// heldLease is the result of the calls about the queues of one hash tag. lease has all queues
// for which the host may be registered.
type heldLease struct {
	lease backend.WorkerLease
	err   error
}

// renewOne makes these calls. before is what was held before.
func (r *registration) renewOne(ctx context.Context, before, lease backend.WorkerLease) heldLease {
	gone := lease
	gone.Queues = without(before.Queues, lease.Queues)
	// A call without a reply may have been carried out, and one that failed not.
	both := lease
	both.Queues = slices.Concat(lease.Queues, gone.Queues)
	if len(lease.Queues) > 0 {
		if err := r.registry.RegisterWorker(ctx, lease); err != nil {
			return heldLease{both, err}
		}
	}
	if len(gone.Queues) > 0 {
		if err := r.registry.UnregisterWorker(ctx, gone, len(lease.Queues) == 0); err != nil {
			return heldLease{both, err}
		}
	}
	return heldLease{lease, nil}
}

// without returns the elements of a that b lacks.
func without(a, b []string) []string {
	if slices.Equal(a, b) {
		return nil
	}
	has := make(map[string]bool, len(b))
	for _, one := range b {
		has[one] = true
	}
	var rest []string
	for _, one := range a {
		if !has[one] {
			rest = append(rest, one)
		}
	}
	return rest
}

// tagOf returns the hash tag of a queue on a cluster, and "" otherwise.
func (r *registration) tagOf(queue string) string {
	if r.host.home.client.IsCluster() {
		return wire.HashTag(queue)
	}
	return ""
}

// leases returns the leases to hold now. A lease without queues is one that was held before.
func (r *registration) leases() []backend.WorkerLease {
	names := r.queues()
	record := r.record(names)
	var tags []string
	byTag := map[string]*backend.WorkerLease{}
	add := func(home string) *backend.WorkerLease {
		tag := r.tagOf(home)
		lease := byTag[tag]
		if lease == nil {
			home = cmp.Or(r.held[tag].Home, home)
			lease = &backend.WorkerLease{ID: r.host.id, Home: home, Lease: r.o.Lease, Record: record}
			byTag[tag] = lease
			tags = append(tags, tag)
		}
		return lease
	}
	if len(names) == 0 { // of a registry that has no queues yet
		names = []string{r.home}
	}
	for _, name := range names {
		base := r.host.home.keys.prefix + ":" + name + ":"
		lease := add(base)
		lease.Queues = append(lease.Queues, base)
	}
	for _, held := range r.held {
		if len(held.Queues) > 0 {
			add(held.Home)
		}
	}
	leases := make([]backend.WorkerLease, len(tags))
	for i, tag := range tags {
		leases[i] = *byTag[tag]
	}
	return leases
}

// record returns what the worker tells of itself.
func (r *registration) record(queues []string) string {
	h := r.host
	record := workerRecord{
		ID: h.id, Name: h.options.Name, PID: os.Getpid(), Version: r.o.Version, Library: libraryVersion(),
		Queues: queues[:min(len(queues), listedQueues)], QueueCount: len(queues),
		Stack: r.o.Stack, Region: r.o.Region, Capabilities: r.o.Capabilities, Routed: h.routed,
		Concurrency: h.Concurrency(), Paused: h.IsPaused(), Stopping: r.fetching.Err() != nil, Started: r.started.UnixMilli(), Lease: r.o.Lease.Milliseconds(),
	}
	record.Host, _ = os.Hostname()
	if len(queues) == 0 || queues[0] != r.home {
		record.Home = r.home
	}
	if runner := h.current(); runner != nil {
		record.Running = runner.count()
	}
	for _, id := range r.connections() {
		if id != 0 {
			record.Clients = append(record.Clients, id)
		}
	}
	text, _ := wire.EncodeJSON(record) // which has no types that fail
	return text
}

// end removes the host from the registered workers. It returns by the deadline, and soon if
// Redis does not reply. The lease ends later then.
func (r *registration) end(deadline time.Time) {
	if r == nil {
		return
	}
	r.loop.Cancel()
	if latest := time.Now().Add(timing.UnregisterTimeout); latest.Before(deadline) {
		deadline = latest
	}
	if !r.host.Health().Reachable {
		return
	}
	safe.Go(context.Background(), func(ctx context.Context) {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, lease := range r.held {
			if ctx.Err() == nil && !r.refused {
				_ = r.registry.UnregisterWorker(ctx, lease, true)
			}
		}
	}).Wait(deadline)
}

// libraryPath is the path of this module.
const libraryPath = "github.com/17a2ac88/bullmq-go"

// programVersion returns the version of the program, as the Go command has recorded it.
var programVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if version := info.Main.Version; version != "" && version != develVersion {
		return version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(12, len(setting.Value))]
		}
	}
	return ""
})

// develVersion is what the Go command records as the version of a module without one.
const develVersion = "(devel)"

// libraryVersion returns the name of this SDK and, if it is known, its version.
var libraryVersion = sync.OnceValue(func() string {
	name := "bullmq-go"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	for _, module := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if module.Path == libraryPath && module.Version != "" && module.Version != develVersion {
			return name + " " + module.Version
		}
	}
	return name
})
