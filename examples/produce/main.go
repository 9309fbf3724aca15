// Produce adds jobs that a Node worker runs:
//
//	import { Worker } from 'bullmq';
//	new Worker('mail', async job => { console.log(job.name, job.data.to); });
//
// It shows the most common options. Times are time.Duration, which the SDK converts to milliseconds.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Mail is the data of the jobs: job.data.to and job.data.text in Node.
type Mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, err := bullmq.NewQueue(ctx, "mail", &bullmq.QueueOptions{
		URL: os.Getenv("REDIS_URL"), // defaults to redis://127.0.0.1:6379
		// The defaults for every job that does not set an option itself.
		DefaultJobOptions: &bullmq.JobOptions{
			Attempts: 3, Backoff: bullmq.ExponentialBackoff(time.Second), // waits 1 s, then 2 s
			KeepCompleted: bullmq.KeepWithin(bullmq.RetentionLimits{Age: time.Hour, Count: 1000}), // at most an hour and at most the newest 1000
			KeepFailed:    bullmq.KeepLast(5000),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	for _, options := range []*bullmq.JobOptions{
		nil,                      // in order of arrival
		{Delay: 5 * time.Second}, // not before 5 s have passed
		{Priority: 10},           // after all jobs without a priority; 1 comes before 10
		{LIFO: true},             // next, before all others
		{JobID: "welcome-ada"},   // added once: while that job exists, adding it again adds nothing
		{Attempts: 5, Backoff: bullmq.FixedBackoff(time.Minute)},            // in place of the default
		{Deduplication: &bullmq.Deduplication{ID: "ada", TTL: time.Minute}}, // once a minute
	} {
		job, err := queue.Add(ctx, "welcome", Mail{To: "ada@example.org", Text: "hello"}, options)
		if err != nil {
			// Redis may have added the job although the reply was lost. With a JobID it is safe to add it
			// again.
			log.Fatal(err)
		}
		fmt.Printf("added job %s with options %s\n", job.ID, job.RawOptions)
	}

	// Add many jobs in one round trip per thousand.
	bulk := make([]bullmq.BulkJob, 500)
	for i := range bulk {
		bulk[i] = bullmq.BulkJob{Name: "newsletter", Data: Mail{To: fmt.Sprintf("reader%d@example.org", i), Text: "news"}}
	}
	jobs, err := queue.AddBulk(ctx, bulk)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("added %d more, from job %s to job %s\n", len(jobs), jobs[0].ID, jobs[len(jobs)-1].ID)
}
