package chaos

import (
	"context"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// SentinelGroup is a master with two replicas, monitored by three Sentinels. The master accepts writes only
// while it has a replica: otherwise a replaced master would accept some after its restart, and they would be
// lost.
type SentinelGroup struct {
	master    *node
	replicas  []*node
	sentinels []*node
}

const masterName = "orders-master"

// StartSentinelGroup starts the servers and returns when the Sentinels know all of them.
func StartSentinelGroup(ctx context.Context) (w *SentinelGroup, err error) {
	w = &SentinelGroup{}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	durable := redisserver.Options{AppendOnly: true, Config: []string{"appendfsync always", "repl-diskless-sync-delay 0", "min-replicas-to-write 1", "min-replicas-max-lag 3"}}
	if w.master, err = startNode(durable); err != nil {
		return w, err
	}
	for range 2 {
		replica, err := startNode(durable)
		if err != nil {
			return w, err
		}
		w.replicas = append(w.replicas, replica)
		if err := replica.do(ctx, "REPLICAOF", "127.0.0.1", fmt.Sprint(w.master.Port())); err != nil {
			return w, err
		}
	}
	if err := until(ctx, "the replicas have the master's data", func() bool { return w.master.info(ctx, "min_slaves_good_slaves") == "2" }); err != nil {
		return w, err
	}
	// With a shorter timeout, Sentinels declare a master dead that they have just promoted, before they are
	// connected to it, and promote another. Writes that the first one has not replicated are then lost for
	// every client.
	for range 3 {
		watch := "sentinel %s " + masterName + " %s"
		s, err := startNode(redisserver.Options{Sentinel: true, Config: []string{
			fmt.Sprintf(watch, "monitor", fmt.Sprintf("127.0.0.1 %d 2", w.master.Port())),
			fmt.Sprintf(watch, "down-after-milliseconds", "4000"),
			fmt.Sprintf(watch, "failover-timeout", "12000"),
		}})
		if err != nil {
			return w, err
		}
		w.sentinels = append(w.sentinels, s)
	}
	return w, until(ctx, "the Sentinels know each other and the replicas", func() bool {
		for _, s := range w.sentinels {
			state, err := s.client.Do(ctx, s.client.B().Arbitrary("SENTINEL", "MASTER", masterName).Build()).AsStrMap()
			if err != nil || state["num-slaves"] != "2" || state["num-other-sentinels"] != "2" {
				return false
			}
		}
		return true
	})
}

// Site returns the address of the master for its clients.
func (w *SentinelGroup) Site() Site {
	var addresses []string
	for _, s := range w.sentinels {
		addresses = append(addresses, s.Addr())
	}
	return Site{Address: "sentinel:" + masterName + "@" + strings.Join(addresses, ","), Prefix: "bull"}
}

// KillMaster kills the master once its replicas are in sync, waits until one of them is promoted, and
// restarts the old master, which Sentinel makes a replica.
func (w *SentinelGroup) KillMaster(ctx context.Context) error {
	if err := syncReplicas(ctx, w.master, w.replicas...); err != nil {
		return err
	}
	w.master.Kill()
	if err := w.promoted(ctx); err != nil {
		return err
	}
	return w.master.Start()
}

// Demote makes Sentinel promote a replica while the old master runs.
func (w *SentinelGroup) Demote(ctx context.Context) error {
	if err := syncReplicas(ctx, w.master, w.replicas...); err != nil {
		return err
	}
	if err := w.sentinels[0].do(ctx, "SENTINEL", "FAILOVER", masterName); err != nil {
		return err
	}
	return w.promoted(ctx)
}

// promoted waits until one of the replicas is the master and has a replica.
func (w *SentinelGroup) promoted(ctx context.Context) error {
	return until(ctx, "a replica is promoted", func() bool {
		for _, replica := range w.replicas {
			if replica.info(ctx, "role") == "master" && replica.info(ctx, "min_slaves_good_slaves") != "0" {
				return true
			}
		}
		return false
	})
}

// Log returns the Sentinels' log lines about role changes.
func (w *SentinelGroup) Log() string {
	var lines strings.Builder
	for i, s := range w.sentinels {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "master") || strings.Contains(line, "failover") || strings.Contains(line, "slave") {
				fmt.Fprintf(&lines, "Sentinel %d: %s", i+1, line)
			}
		}
	}
	return lines.String()
}

// Close stops all servers.
func (w *SentinelGroup) Close() {
	for _, n := range append(append([]*node{w.master}, w.replicas...), w.sentinels...) {
		if n != nil {
			n.close()
		}
	}
}
