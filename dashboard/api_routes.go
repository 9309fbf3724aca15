package dashboard

import "net/http"

// apiRouted is a queue with routes in the API.
type apiRouted struct {
	Name     string `json:"name"`
	URL      string `json:"url"` // of its routes
	Routes   int    `json:"routes"`
	Unserved int    `json:"unserved"`
	Ready    int    `json:"ready"`
	Active   int    `json:"active"`
	Failed   int    `json:"failed"`
	Oldest   int64  `json:"oldest"`
}

// apiSharded is a sharded queue in the API.
type apiSharded struct {
	Name        string          `json:"name"`
	Generations []apiGeneration `json:"generations"`
}

type apiGeneration struct {
	Number  int        `json:"number"`
	Current bool       `json:"current"`
	Unseen  int        `json:"unseen"`
	Shards  []apiShard `json:"shards"`
}

type apiShard struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	Index     int    `json:"index"`
	Error     string `json:"error,omitempty"`
	Paused    bool   `json:"paused"`
	Ready     int    `json:"ready"`
	Active    int    `json:"active"`
	Failed    int    `json:"failed"`
	Completed int    `json:"completed"`
}

func (d *Dashboard) apiRoutesAndShards(r *http.Request) (any, error) {
	content, err := d.routesAndShards(r)
	if err != nil {
		return nil, err
	}
	page := content.(*routesPage)
	reply := struct {
		Routed  []apiRouted  `json:"routed"`
		Sharded []apiSharded `json:"sharded"`
	}{[]apiRouted{}, []apiSharded{}}
	for _, q := range page.Routed {
		reply.Routed = append(reply.Routed, apiRouted{
			text(q.Name), d.link("api", "v1", "queues", q.Name, "routes"), q.Routes, q.Unserved, q.Ready, q.Active, q.Failed, q.Oldest.Milliseconds(),
		})
	}
	for _, q := range page.Sharded {
		sharded := apiSharded{text(q.Name), []apiGeneration{}}
		for _, g := range q.Generations {
			generation := apiGeneration{g.Number, g.Current, g.Unseen, []apiShard{}}
			for _, s := range g.Shards {
				generation.Shards = append(generation.Shards, apiShard{
					text(s.Name), d.link("api", "v1", "queues", s.Name), s.Index, errorText(s.Err), s.Paused, s.Ready, s.Active, s.Failed, s.Completed,
				})
			}
			sharded.Generations = append(sharded.Generations, generation)
		}
		reply.Sharded = append(reply.Sharded, sharded)
	}
	return reply, nil
}

// errorText returns the text of an error for a reply; "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return cut(err.Error(), 2000)
}

// apiRoute is a route in the API.
type apiRoute struct {
	Name         string   `json:"name"` // of its queue
	URL          string   `json:"url"`
	Match        string   `json:"match"` // all or any
	Capabilities []string `json:"capabilities"`
	Stack        string   `json:"stack,omitempty"`
	Region       string   `json:"region,omitempty"`
	Server       string   `json:"server,omitempty"`
	Served       bool     `json:"served"`
	Workers      int      `json:"workers"`
	Ready        int      `json:"ready"`
	Active       int      `json:"active"`
	Failed       int      `json:"failed"`
	Oldest       int64    `json:"oldest"`
	Error        string   `json:"error,omitempty"`
}

func (d *Dashboard) apiRoutesOf(r *http.Request) (any, error) {
	content, err := d.queueRoutes(r)
	if err != nil {
		return nil, err
	}
	list := []apiRoute{}
	for _, row := range content.(*queueRoutesPage).Routes {
		route := apiRoute{
			Name: text(row.Name), URL: d.link("api", "v1", "queues", row.Name), Match: "all", Capabilities: []string{}, Stack: text(row.Target.Stack), Region: text(row.Target.Region),
			Server: text(row.Target.Server), Served: row.IsServed(), Workers: len(row.Workers), Ready: row.Ready, Active: row.Active, Failed: row.Failed,
			Oldest: row.Age.Milliseconds(), Error: errorText(row.Err),
		}
		if row.Any {
			route.Match = "any"
		}
		for _, capability := range row.Target.Capabilities {
			route.Capabilities = append(route.Capabilities, text(capability))
		}
		list = append(list, route)
	}
	return map[string]any{"routes": list}, nil
}
