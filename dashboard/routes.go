package dashboard

import (
	"context"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
)

// livePath is the address of the streams, below the base.
const livePath = "/live"

// routes registers the addresses of the dashboard.
func (d *Dashboard) routes() {
	d.page("/{$}", "overview", d.overview)
	d.page("/search", "search", d.searchJobs)
	d.page("/queues/{queue}", "queue", d.sharing(d.queue))
	d.page("/queues/{queue}/jobs/{job}", "job", d.job)
	d.page("/metrics", "metrics", d.fleetMetrics)
	d.page("/queues/{queue}/metrics", "metrics", d.queueMetrics)
	d.page("/workers", "workers", d.workers)
	d.page("/queues/{queue}/workers", "workers", d.queueWorkers)
	d.page("/queues/{queue}/jobs/{job}/flow", "flow", d.flow)
	d.page("/server", "server", d.server)
	d.page("/routes", "routes", d.routesAndShards)
	d.page("/queues/{queue}/routes", "queue-routes", d.queueRoutes)
	d.page("/dead-letters", "dead-queues", d.deadQueues)
	d.page("/queues/{queue}/dead-letters", "dead-letters", d.deadLetters)
	d.page("/schedulers", "schedulers", d.allSchedulers)
	d.page("/queues/{queue}/schedulers", "schedulers", d.sharing(d.queueSchedulers))
	d.page("/queues/{queue}/schedulers/{scheduler}", "scheduler", d.sharing(d.scheduler))
	d.handle("GET", "/queues/{queue}/jobs/{job}/raw/{part}", d.raw)
	d.handle("GET", "/queues/{queue}/schedulers/{scheduler}/raw/{part}", d.rawTemplate)
	d.handle("GET", "/queues/{queue}/actions/{action}", d.askAction)
	d.handle("POST", "/queues/{queue}/actions/{action}", d.doAction)
	d.handle("GET", livePath, d.serveLive)
	d.apiRoutes()
	files := http.StripPrefix(d.o.Base, http.FileServerFS(assetFiles))
	d.handle("GET", "/assets/{file}", func(w http.ResponseWriter, r *http.Request) error {
		if info, err := fs.Stat(assetFiles, "assets/"+r.PathValue("file")); err != nil || info.IsDir() {
			return notFound{"there is no such file"}
		}
		files.ServeHTTP(w, r)
		return nil
	})
	d.handle("GET", "/", func(http.ResponseWriter, *http.Request) error { return notFound{"there is no such page"} })
}

// crossOrigin refuses requests of other sites that change something.
var crossOrigin = http.NewCrossOriginProtection()

// handle registers a handler below the base. An error becomes a page, or JSON for the API.
func (d *Dashboard) handle(method, path string, handler func(http.ResponseWriter, *http.Request) error) {
	d.patterns = append(d.patterns, method+" "+d.o.Base+path)
	d.mux.HandleFunc(method+" "+d.o.Base+path, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"queue", "job", "scheduler"} {
			r.SetPathValue(name, unescapeDots(r.PathValue(name)))
		}
		if err := crossOrigin.Check(r); err != nil {
			if name := r.PathValue("action"); name != "" && d.o.Audit != nil {
				d.o.Audit(r, Record{Use: Use{Action: name, Queue: r.PathValue("queue")}, Err: errElsewhere})
			}
			d.fail(w, r, http.StatusForbidden, errElsewhere)
			return
		}
		if err := handler(w, r); err != nil {
			d.fail(w, r, statusOf(err), err)
		}
	})
}

// Clients and servers remove the parts . and .. from a path, also if they are escaped. A part
// of this form that is a name has another ~ at its beginning.
var dots = regexp.MustCompile(`^~*\.\.?$`)

func escapeDots(part string) string {
	if dots.MatchString(part) {
		return "~" + part
	}
	return part
}

func unescapeDots(part string) string {
	if dots.MatchString(part) {
		return strings.TrimPrefix(part, "~")
	}
	return part
}

// sharing makes viewers share what read reads for an address while they look at it, see
// sharedRead. What read returns must not depend on who asks.
func (d *Dashboard) sharing(read func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		return sharedRead(d, r, r.PathValue("queue"), r.URL.EscapedPath()+"?"+r.URL.RawQuery, func(ctx context.Context) (any, error) { return read(r.WithContext(ctx)) })
	}
}

// page registers a page. read reads what its template shows.
func (d *Dashboard) page(path, name string, read func(*http.Request) (any, error)) {
	d.handle("GET", path, func(w http.ResponseWriter, r *http.Request) error {
		if err := d.mayRead(r); err != nil {
			return err
		}
		content, err := read(r)
		if err != nil {
			return err
		}
		d.render(w, r, http.StatusOK, name, content)
		return nil
	})
}
