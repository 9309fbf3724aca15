package contender

import (
	"context"
	"errors"
)

// readEvents measures reading events that are already in the stream.
func readEvents(library Library, p Part) error {
	if library.Tail == nil {
		return errors.ErrUnsupported
	}
	warm, err := library.Tail(p.Redis, WarmQueue)
	if err != nil {
		return err
	}
	defer warm.Close()
	if err := warm.Read(context.Background(), p.Warm); err != nil {
		return err
	}
	tail, err := library.Tail(p.Redis, Queue)
	if err != nil {
		return err
	}
	defer tail.Close()
	return measure(func() error { return tail.Read(context.Background(), p.Count) })
}
