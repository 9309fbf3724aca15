package dashboard

import (
	"errors"
	"net/http"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// apiFlowNode is a job of a flow in the API. A job of a queue that the request may not see has
// only its outcome, its state and its children.
type apiFlowNode struct {
	Hidden       bool           `json:"hidden,omitempty"`
	ID           string         `json:"id,omitempty"`
	Name         string         `json:"name,omitempty"`
	Queue        string         `json:"queue,omitempty"`
	URL          string         `json:"url,omitempty"`
	Outcome      string         `json:"outcome,omitempty"`
	State        string         `json:"state"`
	Removed      bool           `json:"removed"`
	Error        string         `json:"error,omitempty"` // why it can't be read
	Timestamp    *int64         `json:"timestamp"`
	ProcessedOn  *int64         `json:"processedOn"`
	FinishedOn   *int64         `json:"finishedOn"`
	AttemptsMade int            `json:"attemptsMade"`
	FailedReason string         `json:"failedReason,omitempty"`
	Counts       apiChildren    `json:"counts"`
	LeftOut      int            `json:"leftOut"`
	Children     []*apiFlowNode `json:"children"`
}

// apiFlowKey is an ancestor in the API.
type apiFlowKey struct {
	Hidden bool   `json:"hidden,omitempty"`
	ID     string `json:"id,omitempty"`
	Queue  string `json:"queue,omitempty"`
	URL    string `json:"url,omitempty"`
}

const (
	apiFlowNodes    = 200  // jobs of a reply, if the request does not tell
	apiMostNodes    = 2000 // and at most
	apiFlowDepth    = 40   // levels of a reply; each is two levels of JSON
	apiFlowChildren = 100  // children of each job, if the request does not tell
)

func (d *Dashboard) apiFlow(r *http.Request) (any, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	query := bullmq.FlowTreeQuery{QueueName: queue.Name(), Prefix: d.o.Prefix, ID: r.PathValue("job")}
	switch from := r.FormValue("from"); from {
	case "", "root":
		query.FromRoot = true
	case "here":
	default:
		return nil, badRequest{errors.New("from is neither root nor here")}
	}
	for _, limit := range []struct {
		name           string
		to             *int
		standard, most int
	}{{"limit", &query.MaxNodes, apiFlowNodes, apiMostNodes}, {"depth", &query.MaxDepth, apiFlowDepth, apiFlowDepth}, {"children", &query.MaxChildren, apiFlowChildren, apiMostNodes}} {
		if *limit.to, err = bound(r, limit.name, limit.standard, limit.most); err != nil {
			return nil, err
		}
		*limit.to = max(*limit.to, 1)
	}
	ctx := r.Context()
	tree, err := bullmq.ReadFlowTree(ctx, d.connection, query)
	if err != nil {
		return nil, err
	}
	ancestors := tree.Ancestors
	if !query.FromRoot {
		if ancestors, err = bullmq.FlowAncestors(ctx, d.connection, d.o.Prefix, queue.Name(), query.ID); err != nil {
			return nil, err
		}
	}
	reply := struct {
		Root      *apiFlowNode `json:"root"`
		Ancestors []apiFlowKey `json:"ancestors"`
		Nodes     int          `json:"nodes"`
		LeftOut   int          `json:"leftOut"`
	}{d.flowJSON(r, tree.Root), []apiFlowKey{}, tree.Nodes, tree.LeftOut}
	for _, key := range ancestors {
		if !d.sees(r, key.QueueName) {
			reply.Ancestors = append(reply.Ancestors, apiFlowKey{Hidden: true})
			continue
		}
		reply.Ancestors = append(reply.Ancestors, apiFlowKey{ID: text(key.ID), Queue: text(key.QueueName), URL: d.flowURL(key)})
	}
	return reply, nil
}

// flowURL returns the address of a job of a flow; "" for one with another prefix.
func (d *Dashboard) flowURL(key bullmq.FlowTreeKey) string {
	if key.Prefix != d.o.Prefix {
		return ""
	}
	return d.link("api", "v1", "queues", key.QueueName, "jobs", key.ID)
}

// flowJSON returns a job of a flow with its children.
func (d *Dashboard) flowJSON(r *http.Request, read *bullmq.FlowTreeNode) *apiFlowNode {
	n := read.Dependencies
	node := &apiFlowNode{
		Outcome: string(read.Outcome), State: string(read.State), Removed: read.Removed, Counts: apiChildren{n.Processed, n.Unprocessed, n.Failed, n.Ignored},
		LeftOut: read.LeftOut, Children: []*apiFlowNode{},
	}
	if node.Hidden = !d.sees(r, read.QueueName); !node.Hidden {
		node.ID, node.Name, node.Queue, node.Error = text(read.ID), text(read.Name), text(read.QueueName), errorText(read.Err)
		node.Timestamp, node.ProcessedOn, node.FinishedOn = unixMillis(read.Timestamp), unixMillis(read.ProcessedOn), unixMillis(read.FinishedOn)
		node.AttemptsMade, node.FailedReason = read.AttemptsMade, text(d.shownReason(read))
		if !read.Removed {
			node.URL = d.flowURL(read.FlowTreeKey)
		}
	}
	for _, child := range read.Children {
		node.Children = append(node.Children, d.flowJSON(r, child))
	}
	return node
}
