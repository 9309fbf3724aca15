package chaos

import (
	"context"
	"fmt"
	"strings"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// Watched is a master with two replicas, watched by three Sentinels. It takes
// writes only while a replica is there: else a master that was replaced would
// take some more when it is started again, and they would be lost.
type Watched struct {
	master    *node
	replicas  []*node
	sentinels []*node
}

const masterName = "orders-master"

// StartWatched starts them and returns when the Sentinels know of all.
func StartWatched(ctx context.Context) (w *Watched, err error) {
	w = &Watched{}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	keeping := redisserver.Options{AppendOnly: true, Config: []string{"appendfsync always", "repl-diskless-sync-delay 0", "min-replicas-to-write 1", "min-replicas-max-lag 3"}}
	if w.master, err = startNode(keeping); err != nil {
		return w, err
	}
	for range 2 {
		replica, err := startNode(keeping)
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
	// Sentinels that are quicker take a master that they have just promoted for dead, before they are connected to it, and
	// promote another one: what the first had not passed on is lost then, whoever has added it.
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

// Site is the master as its clients are told to find it.
func (w *Watched) Site() Site {
	var addresses []string
	for _, s := range w.sentinels {
		addresses = append(addresses, s.Addr())
	}
	return Site{Address: "sentinel:" + masterName + "@" + strings.Join(addresses, ","), Prefix: "bull"}
}

// KillMaster kills the master, once its replicas have all that it has, waits
// until one of them has been promoted, and starts the old master again, which
// Sentinel makes a replica.
func (w *Watched) KillMaster(ctx context.Context) error {
	if err := handOver(ctx, w.master, w.replicas...); err != nil {
		return err
	}
	w.master.Kill()
	if err := w.promoted(ctx); err != nil {
		return err
	}
	return w.master.Start()
}

// Demote has Sentinel make a replica the master, while the old one lives.
func (w *Watched) Demote(ctx context.Context) error {
	if err := handOver(ctx, w.master, w.replicas...); err != nil {
		return err
	}
	if err := w.sentinels[0].do(ctx, "SENTINEL", "FAILOVER", masterName); err != nil {
		return err
	}
	return w.promoted(ctx)
}

// promoted waits until one of the replicas is the master, and has a replica.
func (w *Watched) promoted(ctx context.Context) error {
	return until(ctx, "a replica is promoted", func() bool {
		for _, replica := range w.replicas {
			if replica.info(ctx, "role") == "master" && replica.info(ctx, "min_slaves_good_slaves") != "0" {
				return true
			}
		}
		return false
	})
}

// Log is what the Sentinels have said of masters and who takes whose place.
func (w *Watched) Log() string {
	var said strings.Builder
	for i, s := range w.sentinels {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "master") || strings.Contains(line, "failover") || strings.Contains(line, "slave") {
				fmt.Fprintf(&said, "Sentinel %d: %s", i+1, line)
			}
		}
	}
	return said.String()
}

// Close ends all.
func (w *Watched) Close() {
	for _, n := range append(append([]*node{w.master}, w.replicas...), w.sentinels...) {
		if n != nil {
			n.close()
		}
	}
}
