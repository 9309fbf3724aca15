package main

import (
	"fmt"
	"log"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var begun = time.Now()

// show prints a line: time, source, job, and what happened.
func show(who, jobID, what string) {
	fmt.Printf("%6.3f s  %-8s  job %-2s  %s\n", time.Since(begun).Seconds(), who, jobID, what)
}

// describe returns an event's type and its content other than the job's id.
func describe(event bullmq.Event) string {
	switch event.Type {
	case bullmq.EventCompleted:
		return fmt.Sprintf("%s %s", event.Type, event.ReturnValue)
	case bullmq.EventFailed:
		return fmt.Sprintf("%s: %s", event.Type, event.FailedReason)
	case bullmq.EventDelayed:
		return fmt.Sprintf("%s until %.3f s", event.Type, event.DelayedUntil.Sub(begun).Seconds())
	}
	return string(event.Type)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
