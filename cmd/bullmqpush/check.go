package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// check returns an error if something is missing or does not fit together.
func (c *config) check() error {
	if len(c.endpoints) == 0 {
		return errors.New("there is no queue; give one with its endpoint by -queue NAME=URL or BULLMQPUSH_QUEUE")
	}
	if len(c.push.Keys) == 0 {
		return errors.New("there is no key to sign requests; set BULLMQPUSH_KEYS or -keys-file (bullmqpush -new-key makes a key)")
	}
	if _, err := bullmqpush.Sign(c.push.Keys, "", time.Time{}, nil); err != nil {
		source := "BULLMQPUSH_KEYS"
		if c.keysFile != "" {
			source = "-keys-file " + c.keysFile
		}
		return fmt.Errorf("%s: %w (bullmqpush -new-key makes a key)", source, cause(err))
	}
	tls, err := c.loadTLS()
	if err != nil {
		return err
	}
	c.push.TLS = tls
	if c.client, err = bullmqpush.NewClient(&c.push); err != nil {
		return errors.New(c.nameFlags(strings.TrimPrefix(err.Error(), "bullmqpush: make a client: ")))
	}
	if c.callbackListen != "" && c.push.CallbackURL == "" {
		return errors.New("-callback-listen has no effect without -callback-url; set both")
	}
	for i := range c.endpoints {
		e := &c.endpoints[i]
		if e.send, err = c.client.Handler(e.url); err != nil {
			return fmt.Errorf("-queue %s: %s: %s", e.queue, e.place(), c.nameFlags(cause(err).Error()))
		}
	}
	return nil
}

// cause returns an error of package bullmqpush without the name of its call.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// nameFlags replaces the names of options in an error of package bullmqpush by those of the
// flags, or by that of the variable if there is no flag.
func (c *config) nameFlags(text string) string {
	for _, group := range c.settings() {
		for _, s := range group.settings {
			if s.option == "" || !strings.Contains(text, s.option) {
				continue
			}
			name := "-" + s.name
			if s.secret {
				name = s.variable()
			}
			text = regexp.MustCompile(`\b`+s.option+`\b`).ReplaceAllLiteralString(text, name)
		}
	}
	return text
}
