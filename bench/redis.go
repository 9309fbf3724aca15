package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// redis is a Redis server for the benchmark with a client for administration.
type redis struct {
	*redisserver.Server
	client rueidis.Client
}

func startRedis() (*redis, error) {
	server, err := redisserver.Start(redisserver.Options{})
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		server.Close()
		return nil, err
	}
	return &redis{server, client}, nil
}

func (r *redis) close() {
	r.client.Close()
	r.Close()
}

func (r *redis) flush() error {
	return r.client.Do(context.Background(), r.client.B().Flushall().Sync().Build()).Error()
}

func (r *redis) info(section string) (map[string]string, error) {
	text, err := r.client.Do(context.Background(), r.client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// cpuSeconds returns the CPU time used by the server, user and system.
func (r *redis) cpuSeconds() (float64, error) {
	info, err := r.info("cpu")
	if err != nil {
		return 0, err
	}
	user, err := strconv.ParseFloat(info["used_cpu_user"], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(info["used_cpu_sys"], 64)
	return user + system, err
}

// cost returns the cost of work per job.
func (r *redis) cost(work func() (jobs int, err error)) (cost, error) {
	before, err := r.cpuSeconds()
	if err != nil {
		return cost{}, err
	}
	begun := time.Now()
	jobs, err := work()
	if err != nil {
		return cost{}, err
	}
	took := time.Since(begun)
	after, err := r.cpuSeconds()
	perJob := 1e6 / float64(jobs)
	return cost{took.Seconds() * perJob, (after - before) * perJob}, err
}

// addJobs adds jobs to a BullMQ queue.
func (r *redis) addJobs(queue string, count int) error {
	connection, err := bullmq.ConnectClient(context.Background(), r.client)
	if err != nil {
		return err
	}
	defer connection.Close()
	q, err := bullmq.NewQueue(context.Background(), queue, &bullmq.QueueOptions{Connection: connection})
	if err != nil {
		return err
	}
	defer q.Close()
	job := bullmq.BulkJob{Name: contender.JobName, Data: json.RawMessage(contender.JobData)}
	for left := count; left > 0; {
		bulk := make([]bullmq.BulkJob, min(left, 1000))
		for i := range bulk {
			bulk[i] = job
		}
		if _, err := q.AddBulk(context.Background(), bulk); err != nil {
			return err
		}
		left -= len(bulk)
	}
	return nil
}

// addEvents fills a queue's events stream with the events of jobs.
func (r *redis) addEvents(queue string, count int) error {
	kinds := [][]string{
		{"event", "added", "jobId", "", "name", contender.JobName},
		{"event", "waiting", "jobId", ""},
		{"event", "active", "jobId", "", "prev", "waiting"},
		{"event", "completed", "jobId", "", "returnvalue", "null", "prev", "active"},
	}
	stream := "bull:" + queue + ":events"
	for written := 0; written < count; {
		var page rueidis.Commands
		for ; written < count && len(page) < 1000; written++ {
			id, fields := fmt.Sprint(written/len(kinds)+1), kinds[written%len(kinds)]
			add := r.client.B().Xadd().Key(stream).Id("*").FieldValue()
			for i := 0; i < len(fields); i += 2 {
				value := fields[i+1]
				if value == "" {
					value = id
				}
				add = add.FieldValue(fields[i], value)
			}
			page = append(page, add.Build())
		}
		for _, result := range r.client.DoMulti(context.Background(), page...) {
			if err := result.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}
