package redisstore

import (
	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// eventPosition is the position of a reader in an events stream. From version 7.0 on, Redis
// counts the entries added to a stream. If this count is known for a position, it shows how
// many entries were trimmed before they were read.
type eventPosition struct {
	id         string   // of the last entry read
	resumed    bool     // the caller chose id
	count      int64    // entries added to the stream up to id; -1 when unknown
	counted    string   // the id at which count was last compared with the stream
	unclear    bool     // the last comparison must be repeated after the next read
	unreported int      // number of missed events that have not been reported with a later event yet
	read       []string // the ids of the last entries read, oldest first
}

// rememberedIDs is how many of the last entries a promoted replica may lack. If it lacks
// more, its stream is considered a new one.
const rememberedIDs = 1000

// advance moves the position past an entry.
func (p *eventPosition) advance(id string) {
	p.id, p.unreported = id, 0
	if p.count >= 0 {
		p.count++
	}
	if len(p.read) == 2*rememberedIDs {
		p.read = append(p.read[:0], p.read[rememberedIDs:]...)
	}
	p.read = append(p.read, id)
}

// missed returns the minimum number of entries that were trimmed between the position and
// page. It does not count entries that XDEL may have removed. page has the first entries
// that were still found after the position. now is the state of the stream, which was read
// before page or after it.
func (p *eventPosition) missed(now scripts.Stream, page []backend.Event) int {
	// When now was read, within entries of page had been added, and trimmed of them had
	// been trimmed again.
	trimmed, within := 0, 0
	for _, event := range page {
		if wire.EventComesAfter(event.ID, now.Last) {
			break
		}
		within++
		if now.First == "" || wire.EventComesAfter(now.First, event.ID) {
			trimmed++
		}
	}
	overtaken := now.First == "" || wire.EventComesAfter(now.First, p.id)
	p.unclear = overtaken && trimmed > 0 && trimmed == len(page)
	if p.unclear {
		return 0 // the missing entries may be before the page or after it
	}
	if now.Added < 0 { // before Redis 7.0
		if overtaken && now.First != "" && len(page) > 0 && wire.EventComesAfter(p.id, "0-0") && p.unreported == 0 {
			return 1
		}
		return 0
	}
	end := p.id
	if len(page) > 0 {
		end = page[len(page)-1].ID
	}
	var before int64 // entries added before the page
	switch {
	case overtaken:
		before = now.Added - now.Length - int64(trimmed)
	case !wire.EventComesAfter(now.Last, end):
		before = now.Added - int64(within)
	default:
		return 0
	}
	missed := 0
	switch {
	case p.count >= 0 && !wire.EventComesAfter(now.Deleted, p.counted):
		missed = int(max(before-p.count, 0))
	case p.count < 0 && p.resumed && overtaken && before > 0 && wire.EventComesAfter(p.id, now.Deleted):
		missed = 1
	}
	p.count, p.counted = before, end
	return missed
}

// restart moves a position that is beyond the end of the stream, and reports whether it
// moved it. If the last entry of the stream is one that was read, a promoted replica may
// lack the entries after it, and the position moves behind that entry. Otherwise the stream
// was deleted and recreated, and the position moves to the start.
func (p *eventPosition) restart(now scripts.Stream) bool {
	if len(p.read) == 0 {
		return false // the caller chose the id
	}
	next := eventPosition{id: "0-0", count: -1, unreported: p.unreported}
	for _, id := range p.read {
		if id == now.Last {
			next.id, next.count, next.read = id, now.Added, p.read
		}
	}
	next.counted = next.id
	*p = next
	return true
}
