package dashboard

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// text returns a text with invalid UTF-8 replaced.
func text(s string) string { return cut(s, len(s)) }

func unixMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// isDeeper reports whether JSON is nested deeper than some levels.
func isDeeper(value []byte, levels int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > levels {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// bound returns a number of the query within bounds.
func bound(r *http.Request, name string, standard, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, badRequest{errors.New(name + " is not a number from 0 to " + strconv.Itoa(most))}
	}
	return n, nil
}

// apiLetter is a dead letter in the API.
type apiLetter struct {
	ID           string `json:"id"`
	URL          string `json:"url"`
	State        string `json:"state"`
	Origin       string `json:"origin"`
	Job          string `json:"job"`
	Name         string `json:"name"`
	Reason       string `json:"reason"`
	Cancelled    bool   `json:"cancelled"`
	AttemptsMade int    `json:"attemptsMade"`
	FailedAt     *int64 `json:"failedAt"`
}

func (d *Dashboard) apiLetters(r *http.Request) (any, error) {
	content, err := d.deadLetters(r)
	if err != nil {
		return nil, err
	}
	page := content.(*deadLettersPage)
	reply := struct {
		Letters []apiLetter    `json:"letters"`
		Read    int            `json:"read"`
		Next    *string        `json:"next"`
		Total   *int           `json:"total"`
		Reasons map[string]int `json:"reasons,omitempty"`
		Origins map[string]int `json:"origins,omitempty"`
	}{Letters: []apiLetter{}, Read: page.Read}
	for _, row := range page.Letters {
		reply.Letters = append(reply.Letters, apiLetter{
			text(row.Letter.ID), d.link("api", "v1", "queues", page.Queue, "jobs", row.Letter.ID), string(row.State), text(row.QueueName), text(row.JobID),
			cut(row.Name, 1000), cut(row.Reason, listedValue), row.Cancelled, row.AttemptsMade, unixMillis(row.FailedAt),
		})
	}
	reply.Next = parameterOf(page.Next, "after")
	if page.Counted {
		reply.Total, reply.Origins = &page.Total, map[string]int{}
		if !page.HiddenReasons {
			reply.Reasons = map[string]int{}
		}
		for _, c := range page.Reasons {
			reply.Reasons[text(c.What)] += c.Count
		}
		for _, c := range page.Origins {
			reply.Origins[text(c.What)] += c.Count
		}
	}
	return reply, nil
}

// apiWorker is a worker in the API.
type apiWorker struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name"`
	Queues      []string `json:"queues"`
	QueueCount  int      `json:"queueCount"`
	Registered  bool     `json:"registered"`
	Host        string   `json:"host,omitempty"`
	PID         int      `json:"pid,omitempty"`
	Version     string   `json:"version,omitempty"`
	Library     string   `json:"library,omitempty"`
	Concurrency int      `json:"concurrency"`
	Running     int      `json:"running"`
	Paused      bool     `json:"paused"`
	Stopping    bool     `json:"stopping"`
	Started     *int64   `json:"started"`
	LastSeen    *int64   `json:"lastSeen"`
}

func (d *Dashboard) apiWorkers(r *http.Request) (any, error) {
	names, err := d.queueNames(r)
	if err != nil {
		return nil, err
	}
	workers, err := d.listWorkers(r, names...)
	if err != nil {
		return nil, err
	}
	list := []apiWorker{}
	for _, w := range workers {
		queues := []string{}
		for _, name := range w.Queues {
			queues = append(queues, text(name))
		}
		list = append(list, apiWorker{
			text(w.ID), cut(w.Name, 1000), queues, w.QueueCount, w.IsRegistered(), cut(w.Host, 1000), w.PID, cut(w.Version, 1000), cut(w.Library, 1000),
			w.Concurrency, w.Running, w.Paused, w.Stopping, unixMillis(w.Started), unixMillis(w.LastSeen),
		})
	}
	return map[string]any{"workers": list}, nil
}
