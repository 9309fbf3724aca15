package bullmq

import (
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// BulkError is returned by [Queue.AddBulk] when some of the jobs were not added.
// errors.Is and errors.As look at the errors of all of them.
type BulkError struct {
	Errs []error // by the job's index; nil for one that was added
}

// bulkError returns the errors of results as a BulkError; nil if there are none.
func bulkError(results []backend.AddResult) error {
	var failed *BulkError
	for i := range results {
		if results[i].Err == nil {
			continue
		}
		if failed == nil {
			failed = &BulkError{make([]error, len(results))}
		}
		failed.Errs[i] = results[i].Err
	}
	if failed == nil {
		return nil
	}
	return failed
}

// Of returns why one job was not added; nil if it was.
func (e *BulkError) Of(index int) error {
	if e == nil {
		return nil
	}
	return e.Errs[index]
}

func (e *BulkError) Error() string {
	for i, err := range e.Errs {
		if err != nil {
			return fmt.Sprintf("job %d of the bulk: %v", i, err)
		}
	}
	return "no job of the bulk has failed"
}

// Unwrap returns the errors. One that several jobs in a row share is there once.
func (e *BulkError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errs {
		if err != nil && (len(errs) == 0 || err != errs[len(errs)-1]) {
			errs = append(errs, err)
		}
	}
	return errs
}
