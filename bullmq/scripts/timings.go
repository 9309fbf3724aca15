package scripts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var getTimings = load("getTimings")

// Timings reads when the newest finished jobs were ready, started and finished.
func (q *Store) Timings(ctx context.Context, from backend.TimingsFrom, max int) (jobs []backend.JobTiming, next backend.TimingsFrom, err error) {
	message, err := q.run(ctx, getTimings, q.base, strconv.Itoa(from.Completed), strconv.Itoa(from.Failed), strconv.Itoa(max))
	if err != nil {
		return nil, from, err
	}
	parts, err := message.ToArray()
	if err == nil && len(parts) != 3 {
		err = fmt.Errorf("%d parts", len(parts))
	}
	if err != nil {
		return nil, from, q.unexpected(getTimings, err)
	}
	completed, _ := parts[0].AsInt64()
	failed, _ := parts[1].AsInt64()
	next = backend.TimingsFrom{Completed: from.Completed + int(completed), Failed: from.Failed + int(failed)}
	found, err := parts[2].ToArray()
	if err != nil {
		return nil, from, q.unexpected(getTimings, err)
	}
	jobs = make([]backend.JobTiming, 0, len(found))
	for _, message := range found {
		fields := texts(message)
		if len(fields) != 8 {
			return nil, from, q.unexpected(getTimings, fmt.Errorf("%d fields of a job", len(fields)))
		}
		job := backend.JobTiming{
			State: backend.Completed, ID: fields[1], Name: valid(fields[2]), Ready: readySince(fields[3], "", fields[7]),
			ProcessedOn: wire.ParseTime(fields[4]), FinishedOn: wire.ParseTime(fields[5]), AttemptsMade: number(fields[6]),
		}
		if fields[0] == "F" {
			job.State = backend.Failed
		}
		jobs = append(jobs, job)
	}
	return jobs, next, nil
}
