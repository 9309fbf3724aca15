package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

func decodeStrictly(raw json.RawMessage, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	return decoder.Decode(target)
}

// millis is a time of the protocol in milliseconds, which may have a fraction.
type millis float64

func (m millis) duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

func workerOptions(raw json.RawMessage) (*bullmq.WorkerOptions, error) {
	var given struct {
		Name         string
		LockDuration millis
		Limiter      *struct {
			Max      int
			Duration millis
		}
		Metrics            struct{ MaxDataPoints int }
		MaxStalledCount    *int
		StalledInterval    millis
		MaxStartedAttempts int
		KeepCompleted      bullmq.Retention `json:"removeOnComplete"`
		KeepFailed         bullmq.Retention `json:"removeOnFail"`
		Concurrency        int
	}
	if err := read(raw, &given); err != nil {
		return nil, err
	}
	o := &bullmq.WorkerOptions{
		Name: given.Name, LockDuration: given.LockDuration.duration(), MetricsPoints: given.Metrics.MaxDataPoints,
		MaxStalledCount: stalledCount(given.MaxStalledCount), StalledInterval: given.StalledInterval.duration(),
		MaxStartedAttempts: given.MaxStartedAttempts, KeepCompleted: given.KeepCompleted,
		KeepFailed: given.KeepFailed, Concurrency: given.Concurrency,
	}
	if given.Limiter != nil {
		o.Limiter = &bullmq.Limiter{Max: given.Limiter.Max, Duration: given.Limiter.Duration.duration()}
	}
	return o, nil
}

// jobOptionNames are the options of the protocol under BullMQ's public names.
var jobOptionNames = []string{
	"attempts", "backoff", "continueParentOnFailure", "deduplication", "delay", "failParentOnFailure",
	"ignoreDependencyOnFailure", "jobId", "keepLogs", "lifo", "parent", "priority", "removeDependencyOnFailure",
	"removeOnComplete", "removeOnFail", "sizeLimit", "stackTraceLimit", "telemetry", "timestamp",
}

func jobOptions(raw json.RawMessage) (*bullmq.JobOptions, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(raw, &names); err != nil {
		return nil, misread("opts: %v", err)
	}
	for name := range names {
		if !slices.Contains(jobOptionNames, name) {
			return nil, misread("unknown job option %s", name)
		}
	}
	o := &bullmq.JobOptions{}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("opts: %w", err)
	}
	return o, nil
}

// payload returns a job's data for Add. Missing data differs from null.
func payload(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if string(raw) == "null" {
		return raw, nil
	}
	var value any
	if err := decodeStrictly(raw, &value); err != nil {
		return nil, misread("data: %v", err)
	}
	return value, nil
}
