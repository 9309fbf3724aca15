package bullmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// FoundJob is a job that [FindJob] has found.
type FoundJob struct {
	QueueName, ID string
	Name          string // at most its first 500 bytes
	State         State  // "" if it is in no state
	Timestamp     time.Time
	// ProcessedOn and FinishedOn are zero if the job was not started or has not finished.
	ProcessedOn, FinishedOn time.Time
	AttemptsMade            int
	FailedReason            string // at most its first 500 bytes
}

const findJobText = 500

// FindJob returns the jobs that have an id in one of many queues, in the order of the queues. It
// reads neither data nor results. It makes one call for 50 queues, on a cluster one for each
// hash slot, and more only if many of the queues have such a job. An empty prefix is
// [DefaultPrefix].
//
// FindJob changes nothing. A queue that does not exist, or whose job can't be read, has no such
// job. To read the whole job, use [Queue.Job].
func FindJob(ctx context.Context, connection *Connection, prefix, id string, queues ...string) ([]FoundJob, error) {
	if connection == nil || connection.client == nil {
		return nil, errors.New("bullmq: find a job: there is no Connection: make one with Connect, ConnectOption or ConnectClient")
	}
	if id == "" {
		return nil, errors.New("bullmq: find a job: the id is empty")
	}
	refs := make([]backend.JobRef, len(queues))
	for i, name := range queues {
		k, err := newKeys(prefix, name)
		if err != nil {
			return nil, err
		}
		prefix = k.prefix
		refs[i] = backend.JobRef{Prefix: k.prefix, Queue: k.queue, ID: id}
	}
	reader, records := newFlowReader(connection), make([]*backend.FlowRecord, len(queues))
	for _, indexes := range inCalls(connection, prefix, queues, summariesPerCall) {
		for len(indexes) > 0 {
			read := backend.FlowRead{MaxJobs: len(indexes), MaxText: findJobText}
			for _, index := range indexes {
				read.Jobs = append(read.Jobs, backend.FlowStart{JobRef: refs[index]})
			}
			part, err := reader.ReadFlow(ctx, read)
			if err != nil {
				return nil, fmt.Errorf("bullmq: find job %.80q: %w", id, err)
			}
			var again []int
			for i, index := range indexes {
				if i < len(part.Records) && part.Records[i] != nil {
					records[index] = part.Records[i]
				} else {
					again = append(again, index)
				}
			}
			if len(again) == len(indexes) {
				break // the call has read nothing, although it reads at least one job
			}
			indexes = again
		}
	}
	var found []FoundJob
	for i, r := range records {
		if r == nil || r.Missing || r.Err != nil {
			continue
		}
		found = append(found, FoundJob{
			QueueName: queues[i], ID: id, Name: r.Name, State: State(r.State), Timestamp: r.Timestamp, ProcessedOn: r.ProcessedOn, FinishedOn: r.FinishedOn,
			AttemptsMade: r.AttemptsMade, FailedReason: r.FailedReason,
		})
	}
	return found, nil
}
