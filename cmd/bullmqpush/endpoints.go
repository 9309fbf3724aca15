package main

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// endpoint is a queue with the URL to which its jobs are sent.
type endpoint struct {
	queue, url string
	send       bullmq.Handler
}

// A queue and its endpoint. The name may have spaces, but the URL can't.
var nameAndURL = regexp.MustCompile(`^\s*(\S.*?)=((?i:https?)://\S+)(?:\s+|$)`)

// addEndpoints adds queues with their endpoints, which are separated by spaces.
func (c *config) addEndpoints(text string) error {
	for rest := strings.TrimSpace(text); rest != ""; {
		found := nameAndURL.FindStringSubmatch(rest)
		if found == nil {
			return errors.New("write NAME=URL, such as invoices=https://billing.example.com/jobs")
		}
		e := endpoint{queue: found[1], url: found[2]}
		to, err := url.Parse(e.url)
		switch {
		case err != nil:
			return fmt.Errorf("the endpoint of the queue %s is not a URL; write it like https://billing.example.com/jobs", e.queue)
		case strings.Contains(e.queue, "://"): // the name may have a secret of another endpoint
			return errors.New("write NAME=URL with https or http, such as invoices=https://billing.example.com/jobs")
		case strings.ContainsAny(to.Host, ",;="):
			return errors.New("separate several queues by spaces, or repeat the flag")
		}
		if slices.ContainsFunc(c.endpoints, func(other endpoint) bool { return other.queue == e.queue }) {
			return fmt.Errorf("the queue %s has two endpoints; give it one", e.queue)
		}
		c.endpoints = append(c.endpoints, e)
		rest = rest[len(found[0]):]
	}
	return nil
}

// place returns the URL without its query, which may be secret.
func (e endpoint) place() string {
	to, err := url.Parse(e.url)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
}
