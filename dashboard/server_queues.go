package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// serverQueues are the queues on the page of the server.
type serverQueues struct {
	Queues   []queueKeys // the largest first
	Hidden   int         // queues that are not shown
	Jobs     int         // of all queues
	Versions []versionCount

	// Measured means that the memory of Queues was estimated. MemoryErr is why it was not, or
	// not of all.
	Measured  bool
	MemoryErr error
	Bytes     int64 // of Queues; negative if it may not be measured
}

// queueKeys tells how many jobs a queue keeps in Redis. Each job has a key, or more.
type queueKeys struct {
	Name                             string
	Jobs, Waiting, Completed, Failed int
	Schedulers                       int
	Version                          string // of the client that created the queue; "" if unknown
	Dialect                          int    // major version of BullMQ in whose form the queue is stored
	Percent                          float64
	Memory                           *bullmq.QueueMemory // nil if it was not estimated
	Err                              error
}

// versionCount is the number of queues that a version of BullMQ has created.
type versionCount struct {
	Version string
	Dialect int
	Queues  int
}

// IsOther reports whether the queues are not stored in the form of their version: those of
// BullMQ 6 that have the list paused of BullMQ 5.
func (v versionCount) IsOther() bool { return strings.HasPrefix(v.Version, "6.") && v.Dialect == 5 }

const (
	queuesByKeys  = 50
	versionsShown = 20
)

// serverQueues reads the queues that hold the most jobs. With memory=1 it estimates the memory of
// these, by one call for ten.
func (d *Dashboard) serverQueues(r *http.Request) (page serverQueues, err error) {
	summaries, err := d.summaries(r)
	if err != nil {
		return page, err
	}
	versions := map[versionCount]int{}
	for _, s := range summaries {
		row := queueKeys{Name: s.Name, Completed: s.Counts[bullmq.StateCompleted], Failed: s.Counts[bullmq.StateFailed], Schedulers: schedulersOf(s), Err: s.Err}
		if row.Version, row.Dialect = strings.TrimPrefix(s.Version, "bullmq:"), 6; s.Dialect == bullmq.V5 {
			row.Dialect = 5
		}
		if s.Err == nil {
			versions[versionCount{Version: row.Version, Dialect: row.Dialect}]++
		}
		for _, n := range s.Counts {
			row.Jobs += n
		}
		row.Waiting = row.Jobs - row.Completed - row.Failed
		page.Jobs += row.Jobs
		page.Queues = append(page.Queues, row)
	}
	page.count(versions)
	slices.SortStableFunc(page.Queues, func(a, b queueKeys) int { return cmp.Compare(b.Jobs, a.Jobs) })
	page.Hidden = max(len(page.Queues)-queuesByKeys, 0)
	page.Queues = page.Queues[:len(page.Queues)-page.Hidden]
	if isTrue(r.FormValue("memory")) && len(page.Queues) > 0 {
		d.measure(r.Context(), &page)
	}
	for i := range page.Queues {
		row := &page.Queues[i]
		if page.Bytes > 0 && row.Memory != nil {
			row.Percent = 100 * float64(row.Memory.Bytes) / float64(page.Bytes)
		} else if page.Jobs > 0 && page.Bytes <= 0 {
			row.Percent = 100 * float64(row.Jobs) / float64(page.Jobs)
		}
	}
	return page, nil
}

// count sets Versions, the most frequent first.
func (p *serverQueues) count(versions map[versionCount]int) {
	for v, n := range versions {
		v.Queues = n
		p.Versions = append(p.Versions, v)
	}
	slices.SortFunc(p.Versions, func(a, b versionCount) int {
		return cmp.Or(cmp.Compare(b.Queues, a.Queues), strings.Compare(a.Version, b.Version), cmp.Compare(a.Dialect, b.Dialect))
	})
	p.Versions = p.Versions[:min(len(p.Versions), versionsShown)]
}

// measure estimates the memory of the queues of the page, and sorts them by it.
func (d *Dashboard) measure(ctx context.Context, page *serverQueues) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout/2)
	defer cancel()
	names := make([]string, len(page.Queues))
	for i, row := range page.Queues {
		names[i] = row.Name
	}
	memory, err := bullmq.EstimateQueueMemory(ctx, d.connection, d.o.Prefix, names...)
	if err != nil {
		page.MemoryErr = err // the rest of the page is useful without it
		return
	}
	page.Measured = true
	for i := range memory {
		if memory[i].Err != nil {
			page.MemoryErr = cmp.Or(page.MemoryErr, memory[i].Err)
			continue
		}
		page.Queues[i].Memory = &memory[i]
		if memory[i].Bytes < 0 {
			page.Bytes = -1
		} else if page.Bytes >= 0 {
			page.Bytes += memory[i].Bytes
		}
	}
	size := func(row queueKeys) int64 {
		if row.Memory == nil {
			return -1
		}
		return row.Memory.Bytes
	}
	slices.SortStableFunc(page.Queues, func(a, b queueKeys) int { return cmp.Compare(size(b), size(a)) })
}

// Finished returns the memory of the jobs that have finished.
func (k queueKeys) Finished() int64 {
	if k.Memory == nil || k.Memory.Bytes < 0 {
		return -1
	}
	return k.Memory.Jobs[bullmq.StateCompleted] + k.Memory.Jobs[bullmq.StateFailed]
}
