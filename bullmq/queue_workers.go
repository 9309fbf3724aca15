package bullmq

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// WorkerInfo describes a worker of any process. A worker of this SDK registers itself. Of a
// worker that is not registered, such as one of BullMQ, only Name, Queues and Connections
// are known.
type WorkerInfo struct {
	// ID is the id of a registered worker. Each run has another one. It is "" for a worker
	// that is not registered.
	ID string
	// Name is the Name of the WorkerOptions, or the name that a worker of BullMQ has.
	Name string
	// Queues are the names of the queues that the worker serves, at most the first 100.
	// QueueCount is their number.
	Queues     []string
	QueueCount int
	Host       string // name of the machine
	PID        int    // id of the process
	Version    string // of the program
	Library    string // bullmq-go, with its version if it is known

	// Stack, Region and Capabilities are those of the [RegistrationOptions].
	Stack        string
	Region       string
	Capabilities []string

	Concurrency int
	Running     int  // number of jobs that ran at LastSeen
	Paused      bool // by [Worker.Pause]
	Stopping    bool // it fetches no more jobs, and waits for those that run

	Started  time.Time // by the clock of the worker
	LastSeen time.Time // of the last renewal of the lease, by the clock of Redis
	Expires  time.Time // end of the lease, by the clock of Redis

	// Connections are the connections on which the worker waits for jobs, as CLIENT LIST
	// shows them. It is empty if the server does not permit CLIENT LIST, if the worker may
	// not name its connections, and while the worker has none.
	Connections []ConnectedClient
}

// IsRegistered reports whether the worker has registered itself.
func (w *WorkerInfo) IsRegistered() bool { return w.ID != "" }

// Workers lists the workers of the queue: those that have registered themselves, and those
// that are known by their connection only, such as workers of BullMQ. BullMQ's getWorkers
// lists connections; see [Queue.ConnectedWorkers].
//
// A worker registers itself while it fetches its first jobs. So it may run a job shortly
// before it is listed.
//
// Without permission for the keys of registrations, only connections are listed. Without
// permission for CLIENT LIST, only registered workers are.
func (q *Queue) Workers(ctx context.Context) ([]WorkerInfo, error) {
	workers, err := q.core.fleet().list(ctx, []string{q.core.keys.queue})
	if err != nil {
		return nil, fmt.Errorf("bullmq: list the workers of queue %s: %w", q.Name(), err)
	}
	return workers, nil
}

// ListWorkers lists the workers of several queues, as [Queue.Workers] does for one. A
// registered worker that serves several of them is listed once. Without queue names,
// ListWorkers lists the workers of all queues with the prefix. For that it scans all keys of
// the server, as [Queue.FindOrphanedJobs] does. An empty prefix is [DefaultPrefix].
func ListWorkers(ctx context.Context, connection *Connection, prefix string, queueNames ...string) ([]WorkerInfo, error) {
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: list workers: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	for _, name := range queueNames {
		if _, err := newKeys(prefix, name); err != nil {
			return nil, err
		}
	}
	workers, err := newFleet(connection, cmp.Or(prefix, DefaultPrefix)).list(ctx, queueNames)
	if err != nil {
		return nil, fmt.Errorf("bullmq: list workers: %w", err)
	}
	return workers, nil
}

// fleet returns what finds the workers of the queue.
func (c *core) fleet() fleet {
	return fleet{prefix: c.keys.prefix, registry: c.registry, conn: c.conn, cluster: c.client.IsCluster()}
}

// fleet finds the workers of the queues with a prefix.
type fleet struct {
	prefix   string
	registry backend.WorkerRegistry // nil if the backend has none
	conn     backend.Connection
	cluster  bool // clients do not know their ids
}

// list returns the workers of some queues; of all if there are no names.
func (f fleet) list(ctx context.Context, names []string) ([]WorkerInfo, error) {
	workers, err := f.find(ctx, names)
	if err != nil {
		return nil, err
	}
	infos := make([]WorkerInfo, len(workers))
	for i, worker := range workers {
		infos[i] = worker.WorkerInfo
	}
	return infos, nil
}

// find is list with more than a WorkerInfo tells.
func (f fleet) find(ctx context.Context, names []string) (fleetWorkers, error) {
	all := len(names) == 0
	bases := make([]string, len(names))
	for i, name := range names {
		bases[i] = f.prefix + ":" + name + ":"
	}
	registered, err := f.registered(ctx, bases, all)
	if err != nil {
		return nil, err
	}
	clients, err := f.conn.Clients(ctx)
	if err != nil {
		return nil, err
	}
	var waiting []workerClient
	for _, client := range clients {
		if one, ok := f.workerOf(client); ok && (all || slices.Contains(names, one.queue) || registered.waitsFor(one.queue)) {
			waiting = append(waiting, one)
		}
	}
	waiting = f.assign(registered, waiting)
	workers := registered
	for _, client := range waiting {
		if !all && !slices.Contains(names, client.queue) {
			continue
		}
		workers = append(workers, &fleetWorker{serves: []string{client.queue}, WorkerInfo: WorkerInfo{
			Name: client.name, Queues: []string{client.queue}, QueueCount: 1, Connections: []ConnectedClient{client.ConnectedClient},
		}})
	}
	return workers, nil
}

// fleetWorker is a worker with more than its WorkerInfo tells.
type fleetWorker struct {
	WorkerInfo
	serves  []string // those queues of the call that it serves; Queues may lack some
	routed  string   // the queue of which it serves all routes that it satisfies
	home    string   // the queue in the names of its connections
	clients []int64  // ids of its connections
}

// waitsAs reports whether a connection has the name of those of the worker.
func (w *fleetWorker) waitsAs(client workerClient) bool {
	return client.queue == w.home && client.name == w.Name
}

type fleetWorkers []*fleetWorker

// registered returns the workers that have registered themselves, in the order of their
// start.
func (f fleet) registered(ctx context.Context, bases []string, all bool) (fleetWorkers, error) {
	if f.registry == nil {
		return nil, nil
	}
	var err error
	if all {
		bases, err = f.registry.QueuesWithWorkers(ctx, f.prefix)
	}
	var found []backend.RegisteredWorker
	if err == nil {
		found, err = f.registry.RegisteredWorkers(ctx, bases)
	}
	if err != nil {
		if classify(err) == backend.Forbidden {
			err = nil
		}
		return nil, err
	}
	var workers fleetWorkers
	byID := map[string]*fleetWorker{}
	for _, one := range found {
		worker := readWorker(one)
		if worker == nil {
			continue
		}
		for _, base := range one.Queues {
			worker.serves = append(worker.serves, strings.TrimSuffix(strings.TrimPrefix(base, f.prefix+":"), ":"))
		}
		if known := byID[worker.ID]; known != nil { // it has a record for each hash tag
			known.serves = append(known.serves, worker.serves...)
			known.Expires, known.LastSeen = later(known.Expires, worker.Expires), later(known.LastSeen, worker.LastSeen)
			continue
		}
		byID[worker.ID] = worker
		workers = append(workers, worker)
	}
	slices.SortStableFunc(workers, func(a, b *fleetWorker) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	return workers, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// readWorker returns a registered worker, or nil if its record is none.
func readWorker(w backend.RegisteredWorker) *fleetWorker {
	var record workerRecord
	if err := json.Unmarshal([]byte(w.Record), &record); err != nil || record.ID == "" {
		return nil
	}
	worker := &fleetWorker{clients: record.Clients, routed: record.Routed, WorkerInfo: WorkerInfo{
		ID: record.ID, Name: record.Name, Queues: record.Queues, QueueCount: record.QueueCount, Host: record.Host, PID: record.PID,
		Version: record.Version, Library: record.Library, Stack: record.Stack, Region: record.Region, Capabilities: record.Capabilities,
		Concurrency: record.Concurrency, Running: record.Running, Paused: record.Paused, Stopping: record.Stopping,
		Started: time.UnixMilli(record.Started), Expires: w.Until, LastSeen: w.Until.Add(-time.Duration(record.Lease) * time.Millisecond),
	}}
	if worker.home = record.Home; worker.home == "" && len(record.Queues) > 0 {
		worker.home = record.Queues[0]
	}
	return worker
}

// waitsFor reports whether the connection of a worker may have the name of a queue.
func (r fleetWorkers) waitsFor(queue string) bool {
	return slices.ContainsFunc(r, func(worker *fleetWorker) bool { return worker.home == queue })
}

// workerClient is a connection with the name of a worker.
type workerClient struct {
	ConnectedClient
	queue, name string
}

// workerOf returns the worker that a connection belongs to by its name.
func (f fleet) workerOf(client backend.ConnectedClient) (workerClient, bool) {
	rest, ok := strings.CutPrefix(client.Name, f.prefix+":")
	if !ok {
		return workerClient{}, false
	}
	encoded, suffix, _ := strings.Cut(rest, ":")
	queue, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(queue) == 0 {
		return workerClient{}, false
	}
	name, named := strings.CutPrefix(suffix, "w:")
	if suffix != "" && !named {
		return workerClient{}, false
	}
	return workerClient{ConnectedClient{Name: name, Fields: client.Fields}, string(queue), name}, true
}

// assign gives the registered workers their connections, and returns the others. A worker
// that has just opened a connection has not told its id yet. Then a connection of the same
// name is taken, if it may be one of this SDK.
func (f fleet) assign(registered fleetWorkers, waiting []workerClient) (others []workerClient) {
	owner := map[string]*fleetWorker{} // by id of the client
	for _, worker := range registered {
		for _, id := range worker.clients {
			owner[fmt.Sprint(id)] = worker
		}
	}
	for _, client := range waiting {
		worker := owner[client.Fields["id"]]
		if worker == nil || f.cluster || !worker.waitsAs(client) { // ids begin anew when the server restarts
			others = append(others, client)
			continue
		}
		worker.Connections = append(worker.Connections, client.ConnectedClient)
	}
	for _, worker := range registered {
		if len(worker.Connections) > 0 {
			continue
		}
		others = slices.DeleteFunc(others, func(client workerClient) bool {
			if !worker.waitsAs(client) || !mayBeOurs(client) || len(worker.Connections) > 0 && !f.cluster {
				return false
			}
			worker.Connections = append(worker.Connections, client.ConnectedClient)
			return true
		})
	}
	return others
}

// mayBeOurs reports whether a connection may be one of this SDK, by the name of the library
// that it has told. Redis before 7.2 does not know it.
func mayBeOurs(client workerClient) bool {
	library, known := client.Fields["lib-name"]
	return !known || library == "rueidis"
}
