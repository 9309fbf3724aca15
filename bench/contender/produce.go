package contender

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// produce measures adding jobs to an empty queue after warming up on another.
func produce(library Library, p Part, add func(producer Producer, jobs, concurrency int) error) error {
	warm, err := library.Producer(p.Redis, WarmQueue)
	if err != nil {
		return err
	}
	defer warm.Close()
	producer, err := library.Producer(p.Redis, Queue)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := add(warm, p.Warm, p.Concurrency); err != nil {
		return err
	}
	return measure(func() error { return add(producer, p.Count, p.Concurrency) })
}

// AddEach adds jobs one by one with concurrency adds in flight.
func AddEach(producer Producer, jobs, concurrency int) error {
	var (
		begun  atomic.Int64
		group  sync.WaitGroup
		errs   = make([]error, concurrency)
		adding = func(i int) {
			for begun.Add(1) <= int64(jobs) && errs[i] == nil {
				// as in Node, where an add cannot be cancelled
				_, _, errs[i] = producer.Add(context.Background(), 0)
			}
		}
	)
	for i := range concurrency {
		group.Go(func() { adding(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// addBulks adds jobs in calls of the given size, one after the other.
func addBulks(producer Producer, jobs, size int) error {
	for range jobs / size {
		if err := producer.AddBulk(context.Background(), size); err != nil {
			return err
		}
	}
	return nil
}

func preload(library Library, p Part) error {
	for queue, jobs := range map[string]int{WarmQueue: p.Warm, Queue: p.Count} {
		producer, err := library.Producer(p.Redis, queue)
		if err != nil {
			return err
		}
		defer producer.Close()
		if err := AddEach(producer, jobs, 100); err != nil {
			return err
		}
	}
	return nil
}
