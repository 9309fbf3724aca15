package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

const (
	pickupAdds    = 300
	pickupSpacing = 5 * time.Millisecond
	delayedJobs   = 30
)

// round measures one side once: how soon an idle worker starts a job that is
// added, and how late it starts one that was delayed. The producer is the same
// for both sides.
func (s *side) round(url string) error {
	queue, err := bullmq.NewQueue(s.queue, &bullmq.QueueOptions{Connection: bullmq.URL(url)})
	if err != nil {
		return err
	}
	defer queue.Close()
	if err := s.readClock(); err != nil {
		return err
	}
	if err := s.pickup(queue); err != nil {
		return err
	}
	return s.delayed(queue)
}

func (s *side) pickup(queue *bullmq.Queue) error {
	ctx := context.Background()
	time.Sleep(200 * time.Millisecond) // let the worker come to rest
	added := map[string]float64{}
	for range pickupAdds {
		begun := nowMs()
		job, err := queue.Add(ctx, "ping", nil, &bullmq.JobOptions{RemoveOnComplete: bullmq.RemoveAll()})
		if err != nil {
			return err
		}
		added[job.ID] = begun
		time.Sleep(pickupSpacing)
	}
	var latencies []float64
	for range pickupAdds {
		job, err := s.started()
		if err != nil {
			return err
		}
		latencies = append(latencies, job.At-added[job.ID])
	}
	s.pickups = append(s.pickups, latencies)
	return nil
}

func (s *side) delayed(queue *bullmq.Queue) error {
	ctx := context.Background()
	due := map[string]float64{}
	for range delayedJobs {
		delay := time.Duration(230+rand.IntN(141)) * time.Millisecond
		job, err := queue.Add(ctx, "later", nil, &bullmq.JobOptions{Delay: delay, RemoveOnComplete: bullmq.RemoveAll()})
		if err != nil {
			return err
		}
		due[job.ID] = float64(job.Timestamp.Add(delay).UnixMilli())
	}
	for range delayedJobs {
		job, err := s.started()
		if err != nil {
			return err
		}
		s.lateness = append(s.lateness, job.At-due[job.ID])
	}
	return nil
}

// quantile of some figures, q from 0 to 1.
func quantile(figures []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// medianOf is the median over the rounds of a figure of each round.
func medianOf(rounds [][]float64, q float64) float64 {
	var figures []float64
	for _, round := range rounds {
		figures = append(figures, quantile(round, q))
	}
	return quantile(figures, 0.5)
}

// within is the share of figures that are at most so many.
func within(figures []float64, most float64) float64 {
	n := 0
	for _, figure := range figures {
		if figure <= most {
			n++
		}
	}
	return float64(n) / float64(len(figures))
}
