package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// live tells browsers when a page that they show has changed. Each open page has a stream of
// server-sent events. One reader watches the queues of all streams, and runs only while there
// are streams.
type live struct {
	d *Dashboard

	mu      sync.Mutex
	streams map[*stream]bool
	users   map[string]int // number of streams
	servers map[*http.Server]bool
	watcher *bullmq.QueueWatcher
	stop    context.CancelFunc // ends the reader
	ended   chan struct{}      // is closed when the reader has ended
	changed map[string]time.Time
}

// stream is the connection of one page.
type stream struct {
	topics []string      // names of queues, or allQueues
	server *http.Server  // nil if it is unknown
	change chan struct{} // receives a value after a change
	end    chan struct{} // is closed when the server shuts down
}

// allQueues is the topic of pages about more than one queue. No queue has an empty name.
const allQueues = ""

var errStreams = errors.New("too many pages are open: this one is updated less often")

const (
	pushEvery    = 500 * time.Millisecond
	refreshEvery = 10 * time.Second // for changes without events, such as new workers
	slowly       = 5 * time.Second  // how often pages are updated that have no stream
	// pollEvery is how often all pages are updated if the queues can't be watched.
	pollEvery = 2 * time.Second
	// mostWatched is how many queues one stream watches. Pages about more are updated by time.
	mostWatched = 20
	// writeTime bounds how long a browser may take to accept an event.
	writeTime = 20 * time.Second
)

// livePage tells how browsers update a page while it is open.
type livePage struct {
	// Topics are the names of the queues whose changes update the page, or allQueues. A page
	// without topics is updated by time alone.
	Topics []string
	// Every is the time after which the page is updated even without a change; 0 for
	// refreshEvery.
	Every time.Duration
}

// liveContent is implemented by the content of live pages.
type liveContent interface{ live() livePage }

// liveView is what the layout needs of a live page.
type liveView struct {
	Stream string // address; "" if the page is updated by time alone
	Every  int
}

// liveOf returns what the layout needs of a page, or nil if it is not live.
func (d *Dashboard) liveOf(content any) *liveView {
	page, ok := content.(liveContent)
	if !ok {
		return nil
	}
	tells := page.live()
	v := &liveView{Every: int(tells.Every.Milliseconds())}
	switch {
	case len(tells.Topics) == 0:
	case slices.Contains(tells.Topics, allQueues):
		v.Stream = d.link("live")
	case len(tells.Topics) > mostWatched:
		v.Every = cmp.Or(v.Every, int(slowly.Milliseconds()))
	default:
		v.Stream = d.link("live") + "?" + url.Values{"queue": tells.Topics}.Encode()
	}
	return v
}

// changedAt returns when a topic has changed last.
func (l *live) changedAt(topic string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed[topic]
}

// serveLive serves a stream. It lasts until the browser leaves, or the server shuts down.
func (d *Dashboard) serveLive(w http.ResponseWriter, r *http.Request) error {
	topics, err := d.topicsOf(r)
	if err != nil {
		return err
	}
	s := &stream{topics: topics, change: make(chan struct{}, 1), end: make(chan struct{})}
	s.server, _ = r.Context().Value(http.ServerContextKey).(*http.Server)
	leave, err := d.live.join(s, d.userOf(r))
	if err != nil {
		w.Header().Set("Retry-After", "30")
		return err
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{})
	send := func(text string) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeTime)) // not each server has one
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	if !send(": BullMQ\n\n") {
		return nil
	}
	for {
		select {
		case <-s.change:
			if !send("event: change\ndata:\n\n") {
				return nil
			}
		case <-time.After(refreshEvery): // so that a browser that has gone is noticed
			if !send(": \n\n") {
				return nil
			}
			continue
		case <-s.end:
			return nil
		case <-r.Context().Done():
			return nil
		}
		select {
		case <-time.After(pushEvery):
		case <-s.end:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// topicsOf returns what a stream is about, if its user may read it.
func (d *Dashboard) topicsOf(r *http.Request) ([]string, error) {
	topics := slices.Compact(slices.Sorted(slices.Values(r.URL.Query()["queue"])))
	if len(topics) == 0 {
		topics = []string{allQueues}
	}
	if len(topics) > mostWatched {
		return nil, badRequest{fmt.Errorf("a stream is about at most %d queues", mostWatched)}
	}
	for _, queue := range topics {
		if queue != allQueues && !d.catalog.shows(queue) {
			return nil, notFound{"there is no queue " + cut(queue, 80)}
		}
		if err := d.mayUse(r, Use{Action: ActionRead, Queue: queue}); err != nil {
			return nil, err
		}
	}
	return topics, nil
}

// userOf returns whose streams are counted together.
func (d *Dashboard) userOf(r *http.Request) string {
	if d.o.User != nil {
		return d.o.User(r)
	}
	if name, _, ok := r.BasicAuth(); ok {
		return "user " + name
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// join adds a stream, and starts the reader if it is the first one.
func (l *live) join(s *stream, user string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) >= l.d.o.MaxStreams || l.users[user] >= l.d.o.MaxStreamsPerUser {
		return nil, unavailable{errStreams}
	}
	if s.server != nil && !l.servers[s.server] {
		if l.servers == nil {
			l.servers = map[*http.Server]bool{}
		}
		l.servers[s.server] = true
		s.server.RegisterOnShutdown(func() { l.endOf(s.server) })
	}
	if l.streams == nil {
		l.streams, l.users, l.changed = map[*stream]bool{}, map[string]int{}, map[string]time.Time{}
	}
	if l.stop == nil {
		if err := l.start(); err != nil {
			return nil, err
		}
	}
	l.streams[s] = true
	l.users[user]++
	l.update()
	return func() { l.leave(s, user) }, nil
}

// leave removes a stream, and ends the reader after the last one.
func (l *live) leave(s *stream, user string) {
	l.mu.Lock()
	delete(l.streams, s)
	if l.users[user]--; l.users[user] == 0 {
		delete(l.users, user)
	}
	if len(l.streams) > 0 {
		l.update()
		l.mu.Unlock()
		return
	}
	stop, ended := l.stop, l.ended
	l.stop = nil
	clear(l.changed)
	l.mu.Unlock()
	stop()
	<-ended
}

// endOf ends the streams of a server.
func (l *live) endOf(server *http.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.streams {
		if s.server != server {
			continue
		}
		select {
		case <-s.end: // Shutdown was called before
		default:
			close(s.end)
		}
	}
	delete(l.servers, server)
}

// start starts the reader. l.mu is locked.
func (l *live) start() error {
	watcher, err := bullmq.NewQueueWatcher(l.d.connection, &bullmq.QueueWatcherOptions{Prefix: l.d.o.Prefix, Interval: pushEvery})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.watcher, l.stop, l.ended = watcher, cancel, make(chan struct{})
	go l.run(ctx, watcher, l.ended)
	return nil
}

// run tells streams of changes until ctx ends.
func (l *live) run(ctx context.Context, watcher *bullmq.QueueWatcher, ended chan struct{}) {
	defer close(ended)
	var refreshing sync.WaitGroup
	refreshing.Go(func() {
		every := refreshEvery
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			l.mu.Lock()
			if every = refreshEvery; !l.update() {
				every = pollEvery
			}
			l.mu.Unlock()
			l.tell(nil)
		}
	})
	for names, err := range watcher.Changes(ctx) {
		if errors.Is(err, bullmq.ErrClosed) {
			break
		}
		l.tell(names) // after an error all pages, which then show it
	}
	<-ctx.Done()
	refreshing.Wait()
}

// update makes the reader watch the queues of all streams, and reports whether it can.
// l.mu is locked.
func (l *live) update() bool {
	var names []string
	for s := range l.streams {
		for _, topic := range s.topics {
			if topic == allQueues {
				names = append(names, l.d.catalog.known()...)
			} else {
				names = append(names, topic)
			}
		}
	}
	return l.watcher.Watch(names...) == nil
}

// tell wakes the streams of queues that have changed; nil stands for all.
func (l *live) tell(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	changed := map[string]bool{allQueues: true}
	l.changed[allQueues] = now
	for _, name := range names {
		changed[name] = true
		l.changed[name] = now
	}
	for s := range l.streams {
		if names == nil {
			for _, topic := range s.topics {
				l.changed[topic] = now
			}
		} else if !slices.ContainsFunc(s.topics, func(topic string) bool { return changed[topic] }) {
			continue
		}
		select {
		case s.change <- struct{}{}:
		default: // it has one to send
		}
	}
}
