package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// redisForExample starts a Redis within this process, so that the example runs anywhere. It reports
// itself as a cluster, hence ForceSingleClient.
func redisForExample() (*bullmq.Connection, func()) {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	server.ClockTTL(true)
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true}
	connection, err := bullmq.ConnectOption(context.Background(), option)
	if err != nil {
		log.Fatal(err)
	}
	return connection, func() {
		_ = connection.Close()
		server.Close()
	}
}

// A worker claims a job, extends its claim while it works, and ends it. Over HTTP, a service in any language
// makes the same calls.
func ExampleManager() {
	ctx := context.Background()
	connection, stop := redisForExample() // in a service: bullmq.Connect(ctx, "redis://127.0.0.1:6379")
	defer stop()
	manager, err := bullmqhttp.NewManager(ctx, "prints", &bullmqhttp.ManagerOptions{
		Fetcher: bullmq.FetcherOptions{Connection: connection, LockDuration: time.Minute},
		Retry:   bullmqhttp.ExponentialRetry(time.Second),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close()

	for _, document := range []string{"letter", "poster"} {
		if _, err := manager.Submit(ctx, "print", map[string]string{"document": document}, nil); err != nil {
			log.Fatal(err)
		}
	}
	claims, err := manager.Claim(ctx, "printer-7", 5, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	for _, claim := range claims {
		if _, err := manager.Extend(ctx, claim, 5*time.Minute, map[string]int{"pages": 1}); err != nil {
			log.Fatal(err) // errors.Is(err, bullmqhttp.ErrCancelled) means: stop, and call Fail
		}
		var job *bullmqhttp.JobInfo
		if string(claim.Job.Data) == `{"document":"letter"}` {
			job, err = manager.Succeed(ctx, claim, map[string]int{"pages": 2})
		} else {
			job, err = manager.Fail(ctx, claim, bullmqhttp.Failure{Reason: "the paper is too small"})
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(job.Data), "is", job.State, string(job.Result)+job.Error)
	}
	_, err = manager.Succeed(ctx, claims[0], nil) // a second time
	fmt.Println(errors.Is(err, bullmqhttp.ErrWrongStatus), err)

	stats, err := manager.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Completed, "completed,", stats.Scheduled, "scheduled")
	// Output:
	// {"document":"letter"} is succeeded {"pages":2}
	// {"document":"poster"} is retrying the paper is too small
	// true bullmqhttp: 409 Conflict: the job is succeeded, not claimed
	// 1 completed, 1 scheduled
}
