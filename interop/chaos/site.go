package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Site is the address of the queue for its clients: HOST:PORT, sentinel:MASTER@HOST:PORT,… or
// cluster:HOST:PORT,….
type Site struct {
	Address string
	Prefix  string // "bull", or in braces for a cluster
	Admin   string // HOST:PORT for reading the account and causing faults; defaults to Address
}

// option returns the site as options of rueidis.
func (s Site) option() rueidis.ClientOption {
	option := rueidis.ClientOption{DisableCache: true}
	kind, nodes, _ := strings.Cut(s.Address, ":")
	switch kind {
	case "sentinel":
		option.Sentinel.MasterSet, nodes, _ = strings.Cut(nodes, "@")
		option.InitAddress = strings.Split(nodes, ",")
	case "cluster":
		option.InitAddress = strings.Split(nodes, ",")
	default:
		option.InitAddress, option.ForceSingleClient = []string{s.Address}, true
	}
	return option
}

// Connect connects this SDK to the site.
func (s Site) Connect(ctx context.Context) (*bullmq.Connection, error) {
	return bullmq.ConnectOption(ctx, s.option())
}

// base returns the key prefix of a queue.
func (s Site) base(queue string) string { return s.Prefix + ":" + queue + ":" }

// open returns a client for inspecting the site and causing faults.
func (s Site) open() (rueidis.Client, error) {
	if s.Admin != "" {
		s.Address = s.Admin
	}
	return rueidis.NewClient(s.option())
}

// ask sends one command.
func ask(ctx context.Context, client rueidis.Client, words ...string) error {
	if err := client.Do(ctx, client.B().Arbitrary(words...).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return nil
}

// shardedQueue is a queue whose shards are on several servers.
type shardedQueue struct {
	*bullmq.ShardedQueue
	connections []*bullmq.Connection
}

// Sharded connects this SDK to a queue with shards. The address of the site is that of several servers, separated
// by commas.
func (s Site) Sharded(ctx context.Context, queue string, shards int, options bullmq.ShardedQueueOptions) (*shardedQueue, error) {
	q := &shardedQueue{}
	var err error
	for address := range strings.SplitSeq(s.Address, ",") {
		connection, failed := Site{Address: address}.Connect(ctx)
		if failed != nil {
			return nil, errors.Join(failed, q.Close())
		}
		q.connections = append(q.connections, connection)
	}
	options.Connections, options.Queue.Prefix = q.connections, s.Prefix
	if q.ShardedQueue, err = bullmq.NewShardedQueue(ctx, queue, shards, &options); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// Close closes the queue and its connections.
func (q *shardedQueue) Close() (err error) {
	if q.ShardedQueue != nil {
		err = q.ShardedQueue.Close()
	}
	for _, connection := range q.connections {
		err = errors.Join(err, connection.Close())
	}
	return err
}
