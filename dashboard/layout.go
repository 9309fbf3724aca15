package dashboard

import "slices"

// navLink is a link of the navigation.
type navLink struct {
	Title string
	Path  []string // of the page, below the base
	pages []string // names of the templates for which the link is the current one
}

// navigation are the links at the top of each page, in order.
var navigation = []navLink{
	{"Queues", nil, []string{"overview", "queue", "job", "flow", "action"}},
	{"Metrics", []string{"metrics"}, []string{"metrics"}},
	{"Schedulers", []string{"schedulers"}, []string{"schedulers", "scheduler"}},
	{"Dead letters", []string{"dead-letters"}, []string{"dead-queues", "dead-letters"}},
	{"Workers", []string{"workers"}, []string{"workers"}},
	{"Routes", []string{"routes"}, []string{"routes", "queue-routes"}},
	{"Server", []string{"server"}, []string{"server"}},
}

// queueTabs are the pages of one queue. Path is below that of the queue.
var queueTabs = []navLink{
	{"Jobs", nil, []string{"queue"}},
	{"Metrics", []string{"metrics"}, []string{"queue-metrics"}},
	{"Schedulers", []string{"schedulers"}, []string{"schedulers", "scheduler"}},
	{"Dead letters", []string{"dead-letters"}, []string{"dead-letters"}},
	{"Workers", []string{"workers"}, []string{"workers"}},
	{"Routes", []string{"routes"}, []string{"routes", "queue-routes"}},
}

// Current reports whether a page belongs to the link.
func (l navLink) Current(page string) bool { return slices.Contains(l.pages, page) }
