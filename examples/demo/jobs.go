package main

import (
	"encoding/json"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// jobSpec is a job that the demo adds, and its expected outcome. Names are unique within a queue, so the name
// of an event identifies its job.
type jobSpec struct {
	name string
	note string // for display
	data jobData

	nodeOptions json.RawMessage    // in Node's form
	goOptions   *bullmq.JobOptions // in Go's form

	retries int  // expected number of retries
	fails   bool // expected to fail permanently
	dropped bool // expected to be deduplicated
}

// jobData is the data that both handlers read.
type jobData struct {
	For              string `json:"for"`
	FailUntilAttempt int    `json:"failUntilAttempt,omitempty"`
}

func data(name string) jobData { return jobData{For: name} }

var nodeJobs = []jobSpec{
	{name: "espresso", note: "for Łukasz", data: data("Łukasz")},
	{name: "matcha", note: "for 美咲, in 1 s", data: data("美咲"), nodeOptions: json.RawMessage(`{"delay": 1000}`)},
	{name: "cocoa", note: "for Zoë", data: jobData{"Zoë", 3}, retries: 2,
		nodeOptions: json.RawMessage(`{"attempts": 3, "backoff": {"type": "exponential", "delay": 400}}`)},
	{name: "latte", note: "for Ali 😀, in 2 s", data: data("Ali 😀"),
		nodeOptions: json.RawMessage(`{"delay": 2000, "deduplication": {"id": "latte"}}`)},
	{name: "chai", note: "for Priya, priority 5", data: data("Priya"), nodeOptions: json.RawMessage(`{"priority": 5}`)},
	{name: "latte", dropped: true, data: data("Ali, who is impatient"),
		nodeOptions: json.RawMessage(`{"deduplication": {"id": "latte"}}`)},
	{name: "mocha", note: "for Ångström", data: jobData{"Ångström", 9}, retries: 1, fails: true,
		nodeOptions: json.RawMessage(`{"attempts": 2, "backoff": 300}`)},
	{name: "tea", note: "for 김민준, next", data: data("김민준"), nodeOptions: json.RawMessage(`{"lifo": true}`)},
}

var goJobs = []jobSpec{
	{name: "welcome", note: "to Łukasz", data: data("Łukasz")},
	{name: "receipt", note: "to 美咲, id r-1", data: data("美咲"), goOptions: &bullmq.JobOptions{JobID: "r-1"}},
	{name: "reminder", note: "to Zoë, in 1 s", data: data("Zoë"), goOptions: &bullmq.JobOptions{Delay: time.Second}},
	{name: "invoice", note: "to Priya", data: jobData{"Priya", 2}, retries: 1,
		goOptions: &bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(500 * time.Millisecond)}},
	{name: "digest", note: "to all, priority 9", data: data("all 😀"), goOptions: &bullmq.JobOptions{Priority: 9}},
	{name: "bounce", note: "to Ångström", data: jobData{"Ångström", 9}, retries: 1, fails: true,
		goOptions: &bullmq.JobOptions{Attempts: 2}},
	{name: "survey", note: "to 김민준, in 600 ms", data: data("김민준"), goOptions: &bullmq.JobOptions{Delay: 600 * time.Millisecond}},
	{name: "goodbye", note: "to Łukasz, next", data: data("Łukasz"), goOptions: &bullmq.JobOptions{LIFO: true}},
}
