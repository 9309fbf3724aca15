package dashboard

import (
	"fmt"
	"net/http"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serverPage is what the page of the server shows.
type serverPage struct {
	Nodes  []serverNode
	Prefix string
	serverQueues
}

// serverNode is a server with what a reader should act on.
type serverNode struct {
	bullmq.RedisNode
	Warnings []string
}

const (
	largestOffset = time.Second // of clocks, from which on a page warns
	fullMemory    = 0.85        // of maxmemory, from which on a page warns
)

func (d *Dashboard) server(r *http.Request) (any, error) {
	nodes, err := d.connection.Nodes(r.Context())
	if err != nil {
		return nil, err
	}
	page := &serverPage{Prefix: d.o.Prefix}
	for _, node := range nodes {
		page.Nodes = append(page.Nodes, serverNode{node, nodeWarnings(node)})
	}
	page.serverQueues, err = d.serverQueues(r)
	return page, err
}

// nodeWarnings returns what may harm queues on a server.
func nodeWarnings(n bullmq.RedisNode) (warnings []string) {
	if n.Err != nil {
		return []string{"The server can’t be reached: " + cut(n.Err.Error(), 300)}
	}
	add := func(format string, values ...any) { warnings = append(warnings, fmt.Sprintf(format, values...)) }
	if n.EvictionPolicy != "" && n.EvictionPolicy != "noeviction" {
		add("maxmemory-policy is %s. Redis may evict jobs and locks when its memory is full. Set it to noeviction.", cut(n.EvictionPolicy, 60))
	}
	if n.EvictedKeys > 0 {
		add("Redis has evicted %s since its start. Jobs may be lost.", number(int(n.EvictedKeys), "key"))
	}
	if n.MaxMemory > 0 && float64(n.UsedMemory) > fullMemory*float64(n.MaxMemory) {
		add("%.0f %% of maxmemory are used. Redis refuses to add jobs when it is full.", 100*float64(n.UsedMemory)/float64(n.MaxMemory))
	}
	if n.ClockErr == nil && n.ClockOffset.Abs() > largestOffset {
		add("Its clock is %s that of the dashboard. Delayed jobs and schedulers follow the clocks of programs, and locks that of Redis.", offsetWords(n.ClockOffset))
	}
	if n.MaxClients > 0 && n.Clients > n.MaxClients*9/10 {
		add("%s of at most %s are connected.", formatCount(n.Clients), number(n.MaxClients, "client"))
	}
	if n.ReplicationError != "" {
		add("Replication: %s", cut(n.ReplicationError, 300))
	}
	if n.Replica {
		add("The connection leads to a replica, which can’t be written.")
	}
	return warnings
}

// offsetWords says how far a clock is ahead or behind.
func offsetWords(d time.Duration) string {
	if d < 0 {
		return formatAge(-d) + " behind"
	}
	return formatAge(d) + " ahead of"
}

// Clock says how the clock of the server differs.
func (n serverNode) Clock() string {
	switch {
	case n.ClockErr != nil:
		return ""
	case n.ClockOffset.Abs() < time.Second:
		return "the same"
	case n.ClockOffset < 0:
		return formatAge(-n.ClockOffset) + " behind"
	}
	return formatAge(n.ClockOffset) + " ahead"
}

// Ping returns the latency in milliseconds.
func (n serverNode) Ping() string {
	return fmt.Sprintf("%.1f ms", float64(n.Latency)/float64(time.Millisecond))
}

// formatBytes returns a size, such as 1.5 MB; "" for one that is not known.
func formatBytes(n int64) string {
	if n < 0 {
		return ""
	}
	size, units := float64(n), []string{"bytes", "kB", "MB", "GB", "TB"}
	for size >= 1000 && len(units) > 1 {
		size, units = size/1000, units[1:]
	}
	if units[0] == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
