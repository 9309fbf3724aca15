package bullmq

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// over lays the options that are set over others. What is set to its zero
// value counts as not set: a default can be changed by a job, not taken back.
func (o JobOptions) over(defaults JobOptions) JobOptions {
	merged := reflect.ValueOf(&defaults).Elem()
	own := reflect.ValueOf(o)
	for i := range own.NumField() {
		if !own.Field(i).IsZero() {
			merged.Field(i).Set(own.Field(i))
		}
	}
	return defaults
}

// check refuses what Node refuses, before anything is sent.
func (o *JobOptions) check(data string) error {
	if o.SizeLimit > 0 && len(data) > o.SizeLimit {
		return fmt.Errorf("data of %d bytes exceeds SizeLimit, %d bytes: store the payload elsewhere and put its address into the job", len(data), o.SizeLimit)
	}
	var policies []string
	for _, policy := range []struct {
		name string
		set  bool
	}{
		{"FailParentOnFailure", o.FailParentOnFailure}, {"ContinueParentOnFailure", o.ContinueParentOnFailure},
		{"IgnoreDependencyOnFailure", o.IgnoreDependencyOnFailure}, {"RemoveDependencyOnFailure", o.RemoveDependencyOnFailure},
	} {
		if policy.set {
			policies = append(policies, policy.name)
		}
	}
	if len(policies) > 1 {
		return fmt.Errorf("%s can't be set together: choose one", strings.Join(policies, " and "))
	}
	if err := checkJobID(o.JobID); err != nil {
		return err
	}
	if o.Parent != nil {
		if err := cmp.Or(checkText("Parent.ID", o.Parent.ID), checkText("Parent.Queue", o.Parent.Queue)); err != nil {
			return err
		}
	}
	if o.Priority > maxPriority {
		return fmt.Errorf("priority %d is above the highest, %d", o.Priority, maxPriority)
	}
	if odd, given := o.Extra["priority"]; given && string(odd) != "0" && string(odd) != "null" {
		return fmt.Errorf("priority %s is not a whole number", odd)
	}
	if d := o.Deduplication; d != nil {
		if d.ID == "" {
			return fmt.Errorf("Deduplication needs an ID")
		}
		if err := checkText("Deduplication.ID", d.ID); err != nil {
			return err
		}
		if d.TTL != 0 && d.TTL < time.Millisecond {
			return fmt.Errorf("Deduplication.TTL %v is less than a millisecond; 0 is without one", d.TTL)
		}
		if o.Parent != nil {
			return fmt.Errorf("Deduplication can't be set together with Parent")
		}
	}
	if b := o.Backoff; b != nil {
		switch {
		case b.Jitter < 0 || b.Jitter > 1:
			return fmt.Errorf("Backoff.Jitter %v is not between 0 and 1", b.Jitter)
		case b.Type == "" && b.rest == nil: // read from JSON, it is Node's
			return fmt.Errorf("Backoff has no Type: make it by Fixed, Exponential or Custom")
		case b.Delay > 0 && b.Delay < time.Millisecond && b.rest == nil && !b.number:
			return fmt.Errorf("Backoff.Delay %v is less than a millisecond", b.Delay)
		}
	}
	if o.Parent != nil && (o.Parent.ID == "" || o.Parent.Queue == "") {
		return fmt.Errorf("Parent needs an ID and a Queue with its prefix, such as bull:orders")
	}
	return nil
}

// checkText refuses a name that is no text: what carried it, Node could not
// name.
func checkText(what, name string) error {
	if utf8.ValidString(name) {
		return nil
	}
	return fmt.Errorf("%s %.80q is not valid UTF-8, and could not be named in Node", what, name)
}

const maxPriority = 1<<21 - 1

// checkJobID refuses ids that other keys or BullMQ's own numbers could be
// taken for.
func checkJobID(id string) error {
	switch {
	case id == "":
		return nil
	case id == "0" || strings.HasPrefix(id, "0:"):
		return fmt.Errorf("job id %.80q: ids must not be 0 or start with 0:, which old clients use as wake-up entries", id)
	case isDecimalInteger(id), id == "NaN": // JavaScript reads both as the number that they spell
		return fmt.Errorf("job id %.80q: ids must not be whole numbers, which the queue gives out itself; put a letter before it", id)
	case isKeyName(id):
		return fmt.Errorf("job id %.80q: the queue has a key of that name itself; put something before it", id)
	case strings.Contains(id, ":") && strings.Count(id, ":") != 2:
		return fmt.Errorf("job id %.80q: ids must not contain colons, which separate the parts of a key (two exactly are allowed)", id)
	}
	return checkText("job id", id)
}
