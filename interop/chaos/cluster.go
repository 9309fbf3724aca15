package chaos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// node is one server of a group, with a connection to it only.
type node struct {
	*redisserver.Server
	client rueidis.Client
	id     string // its id in the cluster
}

func startNode(options redisserver.Options) (*node, error) {
	server, err := redisserver.Start(options)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		server.Close()
		return nil, err
	}
	return &node{Server: server, client: client}, nil
}

func (n *node) close() {
	n.client.Close()
	n.Close()
}

func (n *node) do(ctx context.Context, words ...string) error { return ask(ctx, n.client, words...) }

func (n *node) text(ctx context.Context, words ...string) (string, error) {
	return n.client.Do(ctx, n.client.B().Arbitrary(words...).Build()).ToString()
}

// info returns one line of INFO replication.
func (n *node) info(ctx context.Context, name string) string {
	text, _ := n.text(ctx, "INFO", "replication")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// until waits until holds returns true.
func until(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// syncReplicas pauses writes at a master until its replicas have received all of them, so that killing it loses
// nothing. Redis replication is asynchronous.
func syncReplicas(ctx context.Context, master *node, replicas ...*node) error {
	if err := master.do(ctx, "CLIENT", "PAUSE", "10000", "WRITE"); err != nil {
		return err
	}
	return until(ctx, "the replicas are in sync with the master", func() bool {
		offset := master.info(ctx, "master_repl_offset")
		for _, replica := range replicas {
			if offset == "" || offset != replica.info(ctx, "slave_repl_offset") {
				return false
			}
		}
		return true
	})
}

// Cluster is a Redis cluster of masters with one replica each.
type Cluster struct {
	masters, replicas []*node
}

const slots = 16384

// StartCluster starts the given number of masters and as many replicas. It returns when the cluster is
// complete and serves all slots.
func StartCluster(ctx context.Context, masters int) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	start := func() (*node, error) {
		// On a busy machine a slow master must not be taken for dead: writes that it has not replicated would
		// be lost.
		n, err := startNode(redisserver.Options{
			Cluster: true, AppendOnly: true, Config: []string{"cluster-node-timeout 4000", "appendfsync always", "repl-diskless-sync-delay 0"},
		})
		if err == nil {
			n.id, err = n.text(ctx, "CLUSTER", "MYID")
		}
		return n, err
	}
	for i := range masters {
		n, err := start()
		if err != nil {
			return c, err
		}
		c.masters = append(c.masters, n)
		first, last := slots*i/masters, slots*(i+1)/masters-1
		if err := n.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return c, err
		}
	}
	for range masters {
		n, err := start()
		if err != nil {
			return c, err
		}
		c.replicas = append(c.replicas, n)
	}
	for _, n := range c.nodes()[1:] {
		if err := n.do(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(c.masters[0].Port())); err != nil {
			return c, err
		}
	}
	for i, n := range c.replicas {
		if err := until(ctx, "a replica knows its master", func() bool { return n.do(ctx, "CLUSTER", "REPLICATE", c.masters[i].id) == nil }); err != nil {
			return c, err
		}
	}
	return c, c.whole(ctx)
}

func (c *Cluster) nodes() []*node { return append(append([]*node(nil), c.masters...), c.replicas...) }

// whole waits until all nodes agree that all slots are served and replicated.
func (c *Cluster) whole(ctx context.Context) error {
	return until(ctx, "the cluster is complete", func() bool {
		for _, n := range c.nodes() {
			text, _ := n.text(ctx, "CLUSTER", "INFO")
			if !strings.Contains(text, "cluster_state:ok") || !strings.Contains(text, fmt.Sprintf("cluster_known_nodes:%d", len(c.nodes()))) {
				return false
			}
		}
		for _, n := range c.replicas {
			if n.info(ctx, "master_link_status") != "up" {
				return false
			}
		}
		return true
	})
}

// Site returns the address of the cluster for its clients.
func (c *Cluster) Site() Site {
	var addresses []string
	for _, n := range c.nodes() {
		addresses = append(addresses, n.Addr())
	}
	return Site{Address: "cluster:" + strings.Join(addresses, ","), Prefix: "{bull}"}
}

// owner returns the master of a key's slot and its replica.
func (c *Cluster) owner(ctx context.Context, key string) (master, replica *node, slot string, err error) {
	n, err := c.masters[0].client.Do(ctx, c.masters[0].client.B().ClusterKeyslot().Key(key).Build()).AsInt64()
	if err != nil {
		return nil, nil, "", err
	}
	at := int(n) * len(c.masters) / slots
	return c.masters[at], c.replicas[at], strconv.FormatInt(n, 10), nil
}

// Failover makes the replica the master of a key's slot by a coordinated failover, and then reverses it.
func (c *Cluster) Failover(ctx context.Context, key string) error {
	master, replica, _, err := c.owner(ctx, key)
	if err != nil {
		return err
	}
	for _, heir := range []*node{replica, master} {
		var asked time.Time
		if err := until(ctx, "the replica is the master", func() bool {
			if time.Since(asked) > 6*time.Second { // Redis abandons a failover after five seconds
				asked = time.Now()
				_ = heir.do(ctx, "CLUSTER", "FAILOVER") // refused until the replica is in sync
			}
			return heir.info(ctx, "role") == "master"
		}); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

// KillMaster kills the master of a key's slot once its replica is in sync, waits until the replica has taken
// over, and restarts the old master.
func (c *Cluster) KillMaster(ctx context.Context, key string) error {
	master, replica, _, err := c.owner(ctx, key)
	if err != nil {
		return err
	}
	if err := syncReplicas(ctx, master, replica); err != nil {
		return err
	}
	master.Kill()
	if err := until(ctx, "the replica is the master", func() bool { return replica.info(ctx, "role") == "master" }); err != nil {
		return err
	}
	return master.Start()
}

// MoveSlot moves a key's slot to the next master, a few keys at a time.
func (c *Cluster) MoveSlot(ctx context.Context, key string) error {
	from, _, slot, err := c.owner(ctx, key)
	if err != nil {
		return err
	}
	to := c.masters[0]
	if to == from {
		to = c.masters[1]
	}
	err = errors.Join(
		to.do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id),
		from.do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id),
	)
	for err == nil {
		keys, failed := from.client.Do(ctx, from.client.B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "3").Build()).AsStrSlice()
		if failed != nil {
			return failed
		}
		if len(keys) == 0 {
			break
		}
		err = from.do(ctx, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", "5000", "KEYS"}, keys...)...)
		time.Sleep(5 * time.Millisecond) // lets commands run while the queue is split between two nodes
	}
	if err != nil {
		return err
	}
	for _, n := range []*node{to, from} {
		if err := n.do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to.id); err != nil {
			return err
		}
	}
	return nil
}

// Close stops all nodes.
func (c *Cluster) Close() {
	for _, n := range c.nodes() {
		n.close()
	}
}
