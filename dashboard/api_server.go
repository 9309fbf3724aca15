package dashboard

import (
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// apiNode is a server in the API. What is not known is null.
type apiNode struct {
	Address           string   `json:"address"`
	Error             string   `json:"error,omitempty"` // why it can't be reached
	Warnings          []string `json:"warnings"`
	Product           string   `json:"product,omitempty"`
	Version           string   `json:"version,omitempty"`
	Cluster           bool     `json:"cluster"`
	Replica           bool     `json:"replica"`
	Latency           *float64 `json:"latency"`
	ClockOffset       *float64 `json:"clockOffset"`
	Uptime            *int64   `json:"uptime"`
	UsedMemory        *int64   `json:"usedMemory"`
	PeakMemory        *int64   `json:"peakMemory"`
	MaxMemory         *int64   `json:"maxMemory"`
	EvictionPolicy    string   `json:"evictionPolicy,omitempty"`
	EvictedKeys       *int64   `json:"evictedKeys"`
	CommandsPerSecond *int64   `json:"commandsPerSecond"`
	Keys              *int64   `json:"keys"`
	Clients           *int64   `json:"clients"`
	BlockedClients    *int64   `json:"blockedClients"`
	MaxClients        *int64   `json:"maxClients"`
	Replicas          *int64   `json:"replicas"`
	ReplicaLag        *int64   `json:"replicaLag"`
}

// apiKeys is what a queue keeps in Redis, in the API.
type apiKeys struct {
	Name       string     `json:"name"`
	URL        string     `json:"url"`
	Error      string     `json:"error,omitempty"`
	Jobs       int        `json:"jobs"`
	Unfinished int        `json:"unfinished"`
	Completed  int        `json:"completed"`
	Failed     int        `json:"failed"`
	Schedulers int        `json:"schedulers"`
	Version    string     `json:"version,omitempty"`
	Dialect    int        `json:"dialect"`
	Memory     *apiMemory `json:"memory,omitempty"`
}

// apiMemory is the estimated memory of a queue, in bytes; null if it may not be measured.
type apiMemory struct {
	Bytes   *int64           `json:"bytes"`
	Events  *int64           `json:"events"`
	Jobs    map[string]int64 `json:"jobs"`
	Keys    int64            `json:"keys"`
	Sampled int              `json:"sampled"`
}

type apiVersion struct {
	Version string `json:"version"`
	Dialect int    `json:"dialect"`
	Queues  int    `json:"queues"`
}

func (d *Dashboard) apiServer(r *http.Request) (any, error) {
	content, err := d.server(r)
	if err != nil {
		return nil, err
	}
	page := content.(*serverPage)
	reply := struct {
		Nodes       []apiNode    `json:"nodes"`
		Jobs        int          `json:"jobs"`
		Versions    []apiVersion `json:"versions"`
		Queues      []apiKeys    `json:"queues"`
		Hidden      int          `json:"hidden"`
		MemoryError string       `json:"memoryError,omitempty"`
	}{[]apiNode{}, page.Jobs, []apiVersion{}, []apiKeys{}, page.Hidden, errorText(page.MemoryErr)}
	for _, node := range page.Nodes {
		reply.Nodes = append(reply.Nodes, nodeJSON(node))
	}
	for _, v := range page.Versions {
		reply.Versions = append(reply.Versions, apiVersion{cut(v.Version, 1000), v.Dialect, v.Queues})
	}
	for _, row := range page.Queues {
		reply.Queues = append(reply.Queues, apiKeys{
			text(row.Name), d.link("api", "v1", "queues", row.Name), errorText(row.Err), row.Jobs, row.Waiting, row.Completed, row.Failed, row.Schedulers,
			cut(row.Version, 1000), row.Dialect, memoryJSON(row.Memory),
		})
	}
	return reply, nil
}

func nodeJSON(n serverNode) apiNode {
	node := apiNode{Address: text(n.Address), Error: errorText(n.Err), Warnings: orEmpty(n.Warnings)}
	if n.Err != nil {
		return node
	}
	node.Latency = millisOf(float64(n.Latency.Microseconds()))
	if n.ClockErr == nil {
		node.ClockOffset = millisOf(float64(n.ClockOffset.Microseconds()))
	}
	node.Keys = known(n.Keys)
	if n.InfoErr != nil {
		return node
	}
	node.Product, node.Version, node.Cluster, node.Replica, node.EvictionPolicy = cut(n.Product, 1000), cut(n.Version, 1000), n.Cluster, n.Replica, cut(n.EvictionPolicy, 1000)
	node.Uptime, node.UsedMemory, node.PeakMemory, node.MaxMemory = known(n.Uptime.Milliseconds()), known(n.UsedMemory), known(n.PeakMemory), known(n.MaxMemory)
	node.EvictedKeys, node.CommandsPerSecond = known(n.EvictedKeys), known(int64(n.CommandsPerSecond))
	node.Clients, node.BlockedClients, node.MaxClients = known(int64(n.Clients)), known(int64(n.BlockedClients)), known(int64(n.MaxClients))
	node.Replicas, node.ReplicaLag = known(int64(n.Replicas)), known(n.ReplicaLag.Milliseconds())
	return node
}

// millisOf returns microseconds as milliseconds.
func millisOf(micros float64) *float64 {
	ms := micros / 1000
	return &ms
}

// known returns nil for a negative number, which stands for one that is not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func memoryJSON(m *bullmq.QueueMemory) *apiMemory {
	if m == nil {
		return nil
	}
	memory := &apiMemory{known(m.Bytes), known(m.Events), map[string]int64{}, m.Keys, m.Sampled}
	for state, bytes := range m.Jobs {
		if bytes >= 0 {
			memory.Jobs[string(state)] = bytes
		}
	}
	return memory
}
