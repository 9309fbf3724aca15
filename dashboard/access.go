package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var errRemote = errors.New("this dashboard is only for browsers on the machine on which it runs; set Options.Authorize to decide who may use it")

// authorize returns an error if the request is refused.
func (d *Dashboard) authorize(r *http.Request) error {
	if d.o.Authorize != nil {
		return d.o.Authorize(r)
	}
	if !isLoopback(r.RemoteAddr) || !isLocalName(r.Host) || isForwarded(r) {
		return errRemote
	}
	return nil
}

// isLoopback reports whether an address with a port is on this machine.
func isLoopback(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// isLocalName reports whether the host of a request names this machine. Otherwise a page of
// another site could read the dashboard, under a name that resolves to a loopback address.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	at, err := netip.ParseAddr(host)
	return err == nil && at.Unmap().IsLoopback()
}

// isForwarded reports whether a proxy has forwarded the request.
func isForwarded(r *http.Request) bool {
	return r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-Ip") != ""
}

// ActionRead is the Use.Action of a page.
const ActionRead = "read"

// Use is what a request asks for.
type Use struct {
	// Action is [ActionRead] for a page, otherwise the name of an action, such as "retry".
	Action string
	// Queue is the name of the queue, or "" for a page about all queues.
	Queue string
	// Job is the id of the job, or "" if the request is not about one job.
	Job string
}

// Record tells what became of an action.
type Record struct {
	Use
	// Jobs are the ids of the jobs that the action was asked to change. It is empty if the
	// action is not about jobs, or about all that match a search.
	Jobs []string
	// Form is what the action was asked to do, as sent. It may contain the data of a job. It is
	// nil if the form was not read, such as that of another site.
	Form url.Values
	// Done says what was done; "" if Err is set.
	Done string
	// Err is why the action was refused, or has failed.
	Err error
}

// mayRead returns an error if a request for a page is refused.
func (d *Dashboard) mayRead(r *http.Request) error {
	return d.mayUse(r, Use{Action: ActionRead, Queue: r.PathValue("queue"), Job: r.PathValue("job")})
}

// errReadOnly refuses an action.
var errReadOnly = errors.New("this dashboard is read-only")

// mayUse returns an error if a use is refused.
func (d *Dashboard) mayUse(r *http.Request, use Use) error {
	if d.o.ReadOnly && use.Action != ActionRead {
		return refused{errReadOnly}
	}
	if d.o.Access == nil {
		return nil
	}
	if err := d.o.Access(r, use); err != nil {
		return refused{err}
	}
	return nil
}

// sees reports whether a request may see a queue. The name of a queue that it may not see is
// not shown to it.
func (d *Dashboard) sees(r *http.Request, queue string) bool {
	return d.catalog.shows(queue) && d.mayUse(r, Use{Action: ActionRead, Queue: queue}) == nil
}

// queueNames returns the names of the queues that a request may see, in order.
func (d *Dashboard) queueNames(r *http.Request) ([]string, error) {
	names, err := d.catalog.list(r.Context())
	if err != nil || d.o.Access == nil {
		return names, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !d.sees(r, name) }), nil
}

// listWorkers returns the workers of queues, without the names of queues that a request may not
// see.
func (d *Dashboard) listWorkers(r *http.Request, queues ...string) ([]bullmq.WorkerInfo, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	workers, err := bullmq.ListWorkers(r.Context(), d.connection, d.o.Prefix, queues...)
	return d.shownWorkers(r, workers), err
}

// shownWorkers returns copies of workers without the names of queues that a request may not see.
func (d *Dashboard) shownWorkers(r *http.Request, workers []bullmq.WorkerInfo) []bullmq.WorkerInfo {
	shown := slices.Clone(workers)
	for i := range shown {
		w := &shown[i]
		named := len(w.Queues)
		w.Queues = slices.DeleteFunc(slices.Clone(w.Queues), func(name string) bool { return !d.sees(r, name) })
		w.QueueCount -= named - len(w.Queues)
	}
	return shown
}

// parent returns the key of a job's parent; "" if there is none, or if the request may not see
// its queue.
func (d *Dashboard) parent(r *http.Request, job *bullmq.Job) string {
	if job.ParentKey == "" || d.o.Access == nil && d.o.Queues == nil {
		return job.ParentKey
	}
	rest, here := strings.CutPrefix(job.ParentKey, d.o.Prefix+":")
	if queue, _, _ := strings.Cut(rest, ":"); here && d.sees(r, queue) {
		return job.ParentKey
	}
	return ""
}

// shownOptions returns the options of a job, without a parent whose queue the request may not see.
func (d *Dashboard) shownOptions(r *http.Request, job *bullmq.Job) []byte {
	if job.ParentKey == d.parent(r, job) {
		return job.RawOptions
	}
	var options map[string]json.RawMessage
	if json.Unmarshal(job.RawOptions, &options) != nil {
		return nil
	}
	delete(options, "parent")
	text, _ := json.Marshal(options) // can't fail
	return text
}

// mayRemoveChildren returns an error if the children of a job are in queues in which the user may
// not remove jobs.
func (s *subject) mayRemoveChildren(ctx context.Context, job *bullmq.Job) error {
	d := s.dashboard
	if d.o.Access == nil && d.o.Queues == nil {
		return nil
	}
	counts, err := job.DependencyCounts(ctx)
	if err != nil || counts == (bullmq.DependencyCounts{}) {
		return err
	}
	tree, err := bullmq.ReadFlowTree(ctx, d.connection, bullmq.FlowTreeQuery{QueueName: s.name, Prefix: d.o.Prefix, ID: job.ID})
	if err != nil {
		return err
	}
	if tree.LeftOut > 0 {
		return refused{errors.New("the job has too many children to check whether you may remove them: keep the children")}
	}
	may := map[string]bool{s.name: true}
	nodes := []*bullmq.FlowTreeNode{tree.Root}
	for len(nodes) > 0 {
		node := nodes[0]
		nodes = append(nodes[1:], node.Children...)
		if _, known := may[node.QueueName]; !known {
			may[node.QueueName] = d.catalog.shows(node.QueueName) && d.mayUse(s.request, Use{Action: "remove", Queue: node.QueueName}) == nil
		}
		if node.Prefix != d.o.Prefix || !may[node.QueueName] {
			return refused{errors.New("the job has children in a queue in which you may not remove jobs: keep the children")}
		}
	}
	return nil
}

// fromElsewhere returns an error if a page of another site has made the request, other than by
// a link to a page. Such a page can't read the reply, but a read may be expensive.
func fromElsewhere(r *http.Request) error {
	site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
	if site == "" || site == "same-origin" || site == "none" || mode == "navigate" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return errElsewhere
}

var errElsewhere = errors.New("the request comes from another site: use the pages of the dashboard")
