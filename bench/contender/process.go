package contender

import (
	"bufio"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// process measures running jobs that are already in the queue, from the start of the consumer until the last
// job is done.
func process(library Library, p Part) error {
	if err := processed(library, p, WarmQueue, p.Warm, func(work func() error) error { return work() }); err != nil {
		return err
	}
	return processed(library, p, Queue, p.Count, measure)
}

func processed(library Library, p Part, queue string, jobs int, measure func(work func() error) error) error {
	all := make(chan struct{})
	var handled atomic.Int64
	consumer, err := library.Consumer(p.Redis, queue, p.Concurrency, func(string) {
		if handled.Add(1) == int64(jobs) {
			close(all)
		}
	})
	if err != nil {
		return err
	}
	active, err := net.Dial("tcp", p.Redis)
	if err != nil {
		return err
	}
	defer active.Close()
	err = measure(func() error {
		if err := consumer.Start(); err != nil {
			return err
		}
		<-all
		return waitUntilEmpty(active, library.ActiveKey(queue))
	})
	if err != nil {
		return err
	}
	return consumer.Stop()
}

// waitUntilEmpty polls the length of a list until it is 0. It uses no client library, which would add to the
// measurement.
func waitUntilEmpty(conn net.Conn, key string) error {
	replies := bufio.NewReader(conn)
	for {
		if _, err := fmt.Fprintf(conn, "LLEN %s\r\n", key); err != nil {
			return err
		}
		reply, err := replies.ReadString('\n')
		if err != nil {
			return err
		}
		if reply == ":0\r\n" {
			return nil
		}
		if reply[0] != ':' {
			return fmt.Errorf("LLEN %s: %s", key, reply)
		}
		time.Sleep(time.Millisecond)
	}
}
