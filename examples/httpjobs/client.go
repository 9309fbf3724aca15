package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// client prints each request with its reply.
type client struct{ server string }

// post sends an order.
func (c *client) post(path string) (*http.Response, string, error) {
	return c.send(http.MethodPost, path, `{"year":2026}`)
}

func (c *client) get(path string) (*http.Response, string, error) {
	return c.send(http.MethodGet, path, "")
}

func (c *client) send(method, path, body string) (*http.Response, string, error) {
	request, err := http.NewRequest(method, c.server+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return nil, "", err
	}
	fmt.Printf("  %s %s\n    %d after %d ms: %s\n", method, path, reply.StatusCode, time.Since(begun).Milliseconds(), shorten(text))
	return reply, string(text), nil
}

// shorten returns the body of a reply, or what is most important in the status of a job.
func shorten(body []byte) string {
	var job bullmqhttp.Status
	switch err := json.Unmarshal(body, &job); {
	case err != nil || job.ID == "":
		return string(body)
	case job.ResponseStatus != 0:
		return fmt.Sprintf("job %s has %s with status %d", job.ID, job.State, job.ResponseStatus)
	}
	return fmt.Sprintf("job %s is %s", job.ID, job.State)
}

// follow sends an order that is run later, waits for its end and gets the result.
func (c *client) follow(path string) error {
	reply, _, err := c.post(path)
	if err != nil {
		return err
	}
	location := reply.Header.Get("Location")
	_, text, err := c.get(location + "?wait=20")
	if err != nil {
		return err
	}
	var status bullmqhttp.Status
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return err
	}
	if !status.State.Ended() {
		_, _, err := c.send(http.MethodDelete, location, "")
		if err == nil {
			err = errors.New("no worker has run the job, which is cancelled: start node worker.mjs first")
		}
		return err
	}
	_, _, err = c.get(status.Links.Result)
	return err
}
