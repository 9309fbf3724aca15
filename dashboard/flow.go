package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// flowPage is what the page of a flow shows.
type flowPage struct {
	Queue, Job string
	Whole      bool // the flow from its root; otherwise the part below the job
	Ancestors  []flowLink
	Root       *flowNode
	Nodes      int // jobs that were read
	Drawn      int
	LeftOut    int // children that were not read
	Counts     []flowCount
	Width      int
	Height     int
	Next, Prev string // addresses of other children of the job
	Inside     bool   // the job is in the drawing
	queues     []string
}

// flowLink is a job with the address of its flow, if the reader may see it.
type flowLink struct{ Text, URL string }

// flowCount is the number of jobs of a kind.
type flowCount struct {
	Mark  flowMark
	Count int
}

// flowNode is a job in the drawing of a flow.
type flowNode struct {
	Title  string // name of the job
	Where  string // queue and id
	ListID string // of its element in the list; "" if there is no page
	URL    string // "" if there is no page
	Mark   flowMark
	Detail string // such as the reason of the failure
	Self   bool   // it is the job of the page
	// More is the number of children that are not drawn. MoreURL goes on from there.
	More     int
	MoreURL  string
	Children []*flowNode
	X, Y     int
	Edges    []flowEdge // to its children
	MoreY    int
}

// flowEdge is a line from the right of a job to the left of a child.
type flowEdge struct{ X1, Y1, X2, Y2, Mid int }

// flowMark is the kind of a job in a flow: a shape, and words.
type flowMark struct{ Shape, Words string }

const (
	drawnNodes    = 200 // jobs that are drawn
	drawnChildren = 12  // children that are drawn of a job
	pagedChildren = 60  // children that are drawn of the job from which a part begins
	boxWidth      = 190
	boxHeight     = 40
	columnWidth   = boxWidth + 60
	rowHeight     = boxHeight + 12
)

// live updates the page when one of the queues of the flow has changed.
func (p *flowPage) live() livePage { return livePage{Topics: p.queues} }

// flowModel is what is read for the page of a flow.
type flowModel struct {
	tree      *bullmq.FlowTree
	ancestors []bullmq.FlowTreeKey
	queues    []string // of its jobs, in order
}

// readFlow reads the flow of a job, also the jobs of queues that a viewer may not see.
func (d *Dashboard) readFlow(r *http.Request, whole bool) (*flowModel, error) {
	queue, err := d.open(r)
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	ctx, id := r.Context(), r.PathValue("job")
	m := &flowModel{}
	if m.tree, err = bullmq.ReadFlowTree(ctx, d.connection, bullmq.FlowTreeQuery{QueueName: queue.Name(), Prefix: d.o.Prefix, ID: id, FromRoot: whole}); err != nil {
		return nil, err
	}
	m.ancestors, m.queues = m.tree.Ancestors, d.queuesOf(m.tree.Root)
	if !whole {
		m.ancestors, err = bullmq.FlowAncestors(ctx, d.connection, d.o.Prefix, queue.Name(), id)
	}
	return m, err
}

// queuesOf returns the names of the queues of a flow, in order.
func (d *Dashboard) queuesOf(root *bullmq.FlowTreeNode) []string {
	found := map[string]bool{}
	for stack := []*bullmq.FlowTreeNode{root}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = append(stack[:len(stack)-1], n.Children...)
		if n.Prefix == d.o.Prefix {
			found[n.QueueName] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// flow draws the flow of a job, from its root. With from=here it begins at the job, and skip
// leaves out its first children.
func (d *Dashboard) flow(r *http.Request) (any, error) {
	skip, err := strconv.Atoi("0" + r.FormValue("skip"))
	if err != nil {
		return nil, badRequest{errors.New("there is no such page")}
	}
	page := &flowPage{Queue: r.PathValue("queue"), Job: r.PathValue("job"), Whole: r.FormValue("from") != "here"}
	m, err := sharedRead(d, r, allQueues, fmt.Sprint(r.URL.EscapedPath(), "?", page.Whole), func(ctx context.Context) (*flowModel, error) { return d.readFlow(r.WithContext(ctx), page.Whole) })
	if err != nil {
		return nil, err
	}
	for _, ancestor := range slices.Backward(m.ancestors) {
		page.Ancestors = append(page.Ancestors, d.flowLink(r, ancestor))
	}
	page.Nodes, page.LeftOut = m.tree.Nodes, m.tree.LeftOut
	page.Counts = countMarks(m.tree.Root)
	page.queues = slices.DeleteFunc(slices.Clone(m.queues), func(name string) bool { return !d.sees(r, name) })
	f := flowDrawing{d: d, r: r, page: page, skip: skip}
	page.Root = f.draw(m.tree.Root)
	page.Drawn = f.drawn
	rows := 0
	page.place(page.Root, 0, &rows)
	page.Height = rows*rowHeight + 8
	return page, nil
}

// flowLink returns a job of a flow, without its name if the reader may not see its queue.
func (d *Dashboard) flowLink(r *http.Request, key bullmq.FlowTreeKey) flowLink {
	if !d.sees(r, key.QueueName) {
		return flowLink{Text: "a job of another queue"}
	}
	link := flowLink{Text: cut(key.ID, 60) + " of " + cut(key.QueueName, 60)}
	if key.Prefix == d.o.Prefix {
		link.URL = d.link("queues", key.QueueName, "jobs", key.ID, "flow") + "?from=here"
	}
	return link
}

// flowDrawing selects the jobs to draw.
type flowDrawing struct {
	d     *Dashboard
	r     *http.Request
	page  *flowPage
	skip  int
	drawn int
}

// draw returns the jobs to draw, level by level, so that a large part leaves room for others.
func (f *flowDrawing) draw(root *bullmq.FlowTreeNode) *flowNode {
	type pair struct {
		read  *bullmq.FlowTreeNode
		drawn *flowNode
	}
	first := f.node(root)
	for queue := []pair{{root, first}}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		children, most := byImportance(at.read.Children), drawnChildren
		if at.read == root && !f.page.Whole {
			most = pagedChildren
			children = f.pageOf(at.read.Children)
		}
		children = children[:max(min(len(children), most, drawnNodes-f.drawn), 0)]
		for _, child := range children {
			node := f.node(child)
			at.drawn.Children = append(at.drawn.Children, node)
			queue = append(queue, pair{child, node})
		}
		n := at.read.Dependencies
		all := max(n.Processed+n.Unprocessed+n.Failed+n.Ignored, len(at.read.Children))
		if at.drawn.More = all - len(children); at.read == root && !f.page.Whole {
			at.drawn.More = max(at.drawn.More-f.skip, 0)
		}
		if at.drawn.More > 0 && at.drawn.URL != "" {
			at.drawn.MoreURL = at.drawn.URL + "/flow?from=here"
			if at.read == root && !f.page.Whole {
				at.drawn.MoreURL = f.page.Next
			}
		}
	}
	return first
}

// pageOf returns the children from skip on, and sets the addresses of the other pages.
func (f *flowDrawing) pageOf(children []*bullmq.FlowTreeNode) []*bullmq.FlowTreeNode {
	base := f.d.link("queues", f.page.Queue, "jobs", f.page.Job, "flow") + "?from=here"
	if f.skip > 0 {
		f.page.Prev = base + "&" + url.Values{"skip": {strconv.Itoa(max(f.skip-pagedChildren, 0))}}.Encode()
	}
	children = byImportance(children)
	children = children[min(f.skip, len(children)):]
	if len(children) > pagedChildren {
		f.page.Next = base + "&" + url.Values{"skip": {strconv.Itoa(f.skip + pagedChildren)}}.Encode()
	}
	return children
}

// byImportance returns children with those first that a reader looks for.
func byImportance(children []*bullmq.FlowTreeNode) []*bullmq.FlowTreeNode {
	rank := func(n *bullmq.FlowTreeNode) int {
		switch {
		case n.Outcome == bullmq.ChildFailed, n.State == bullmq.StateFailed:
			return 0
		case n.Outcome == bullmq.ChildIgnored, n.Err != nil:
			return 1
		case n.State == bullmq.StateActive:
			return 2
		case n.Outcome == bullmq.ChildUnprocessed:
			return 3
		}
		return 4
	}
	children = slices.Clone(children)
	slices.SortStableFunc(children, func(a, b *bullmq.FlowTreeNode) int { return rank(a) - rank(b) })
	return children
}

// node returns a job as it is drawn.
func (f *flowDrawing) node(read *bullmq.FlowTreeNode) *flowNode {
	f.drawn++
	node := &flowNode{Mark: markOf(read)}
	if !f.d.sees(f.r, read.QueueName) {
		node.Title = "in another queue"
		return node
	}
	node.Title, node.Where = read.Name, cut(read.QueueName, 60)+" / "+cut(read.ID, 60)
	if node.Title == "" {
		node.Title = read.ID
	}
	if node.Mark.Shape != "completed" { // a retried job keeps its last error
		node.Detail = f.d.shownReason(read)
	}
	if read.Err != nil {
		node.Detail = read.Err.Error()
	}
	if read.Prefix == f.d.o.Prefix && !read.Removed {
		node.URL = f.d.link("queues", read.QueueName, "jobs", read.ID)
		node.ListID = "n-" + url.QueryEscape(read.QueueName) + ":" + url.QueryEscape(read.ID)
		if node.Self = read.QueueName == f.page.Queue && read.ID == f.page.Job; node.Self {
			f.page.Inside = true
		}
	}
	return node
}

// markOf returns the kind of a job in a flow.
func markOf(n *bullmq.FlowTreeNode) flowMark {
	switch {
	case n.Err != nil:
		return flowMark{"missing", "can’t be read"}
	case n.Removed:
		words := map[bullmq.ChildOutcome]string{bullmq.ChildProcessed: "completed, removed", bullmq.ChildIgnored: "failure ignored, removed", bullmq.ChildFailed: "failed, removed"}[n.Outcome]
		if words == "" {
			words = "missing"
		}
		return flowMark{"missing", words}
	case n.Outcome == bullmq.ChildIgnored:
		return flowMark{"ignored", "failure ignored"}
	case n.Outcome == bullmq.ChildFailed:
		return flowMark{"failed", "failed, fails its parent"}
	case n.State == bullmq.StateFailed && n.Outcome == bullmq.ChildUnprocessed:
		return flowMark{"failed", "failed, its parent waits"}
	}
	switch n.State {
	case bullmq.StateFailed:
		return flowMark{"failed", "failed"}
	case bullmq.StateCompleted:
		return flowMark{"completed", "completed"}
	case bullmq.StateActive:
		return flowMark{"active", "active"}
	case "":
		return flowMark{"missing", "in no state"}
	case bullmq.StateWaitingChildren:
		return flowMark{"parent", "waits for children"}
	}
	return flowMark{"waiting", string(n.State)}
}

// countMarks counts the jobs of a flow by kind, the failed ones first.
func countMarks(root *bullmq.FlowTreeNode) (counts []flowCount) {
	found := map[flowMark]int{}
	for stack := []*bullmq.FlowTreeNode{root}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = append(stack[:len(stack)-1], n.Children...)
		found[markOf(n)]++
	}
	for mark, n := range found {
		counts = append(counts, flowCount{mark, n})
	}
	order := []string{"failed", "ignored", "missing", "active", "waiting", "parent", "completed"}
	slices.SortFunc(counts, func(a, b flowCount) int {
		if by := slices.Index(order, a.Mark.Shape) - slices.Index(order, b.Mark.Shape); by != 0 {
			return by
		}
		return strings.Compare(a.Mark.Words, b.Mark.Words)
	})
	return counts
}

// place sets the positions of a job and of the jobs below it. Each job without children takes a
// row, and a parent is in the middle of its children.
func (p *flowPage) place(n *flowNode, depth int, rows *int) {
	n.X = depth*columnWidth + 4
	p.Width = max(p.Width, n.X+boxWidth+90)
	if len(n.Children) == 0 {
		n.Y = *rows*rowHeight + 4
		n.MoreY = n.Y + boxHeight/2
		*rows++
		return
	}
	for _, child := range n.Children {
		p.place(child, depth+1, rows)
	}
	first, last := n.Children[0], n.Children[len(n.Children)-1]
	n.Y = (first.Y + last.Y) / 2
	if n.More > 0 {
		n.MoreY = *rows*rowHeight + 4 + boxHeight/2
		*rows++
	}
	for _, child := range n.Children {
		x1, x2 := n.X+boxWidth, child.X
		n.Edges = append(n.Edges, flowEdge{x1, n.Y + boxHeight/2, x2, child.Y + boxHeight/2, (x1 + x2) / 2})
	}
	if n.More > 0 {
		x1, x2 := n.X+boxWidth, n.X+columnWidth
		n.Edges = append(n.Edges, flowEdge{x1, n.Y + boxHeight/2, x2, n.MoreY, (x1 + x2) / 2})
	}
}

// All returns the jobs of the drawing, parents first.
func (n *flowNode) All() []*flowNode {
	all := []*flowNode{n}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Children...)
	}
	return all
}

// Positions of the parts of a job in the drawing.
func (n *flowNode) MarkX() int { return n.X + 14 }
func (n *flowNode) MarkY() int { return n.Y + boxHeight/2 }
func (n *flowNode) TextX() int { return n.X + 28 }
func (n *flowNode) Line1() int { return n.Y + 17 }
func (n *flowNode) Line2() int { return n.Y + 32 }
func (n *flowNode) MoreX() int {
	if len(n.Children) > 0 {
		return n.X + columnWidth + 6
	}
	return n.X + boxWidth + 10
}
func (n *flowNode) MoreLine() int { return n.MoreY + 4 }

// short returns the first characters of a text.
func short(text string, characters int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for i := range text {
		if characters--; characters < 0 {
			return text[:i] + "…"
		}
	}
	return text
}
