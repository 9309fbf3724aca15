package dashboard

import (
	"errors"
	"net/http"
)

// routes registers the addresses of the dashboard.
func (d *Dashboard) routes() {
	d.page("/{$}", "overview", d.overview)
	d.page("/queues/{queue}", "queue", d.queue)
	d.page("/queues/{queue}/jobs/{job}", "job", d.job)
	d.page("/workers", "workers", d.workers)
	d.page("/schedulers", "schedulers", d.allSchedulers)
	d.page("/queues/{queue}/schedulers", "schedulers", d.queueSchedulers)
	d.page("/queues/{queue}/schedulers/{scheduler}", "scheduler", d.scheduler)
	d.handle("GET", "/queues/{queue}/jobs/{job}/raw/{part}", d.raw)
	d.handle("GET", "/queues/{queue}/actions/{action}", d.askAction)
	d.handle("POST", "/queues/{queue}/actions/{action}", d.doAction)
	d.mux.Handle("GET "+d.o.Base+"/assets/", http.StripPrefix(d.o.Base, http.FileServerFS(assetFiles)))
	d.handle("GET", "/", func(http.ResponseWriter, *http.Request) error { return notFound{"there is no such page"} })

	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.fail(w, r, http.StatusForbidden, errors.New("the request comes from another site: use the pages of the dashboard"))
	}))
	d.serve = protection.Handler(d.mux)
}

// handle registers a handler below the base. An error becomes a page.
func (d *Dashboard) handle(method, path string, handler func(http.ResponseWriter, *http.Request) error) {
	d.mux.HandleFunc(method+" "+d.o.Base+path, func(w http.ResponseWriter, r *http.Request) {
		if err := handler(w, r); err != nil {
			d.fail(w, r, statusOf(err), err)
		}
	})
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
