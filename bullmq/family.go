package bullmq

import (
	"context"
	"encoding/json"
)

// ChildrenValues answers what the job's completed children have returned, as
// JSON, by their keys (BullMQ: getChildrenValues).
func (j *Job) ChildrenValues(ctx context.Context) (map[string]json.RawMessage, error) {
	values, err := j.core.store.Processed(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return rawValues(values), nil
}

func rawValues(texts map[string]string) map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(texts))
	for key, text := range texts {
		values[key] = json.RawMessage(text)
	}
	return values
}

// IgnoredChildrenFailures answers why children failed whose failure the job
// goes on without, by their keys (BullMQ: getIgnoredChildrenFailures).
func (j *Job) IgnoredChildrenFailures(ctx context.Context) (map[string]string, error) {
	return j.core.store.Ignored(ctx, j.ID)
}

// Dependencies are a job's children, by how they stand.
type Dependencies struct {
	Processed   map[string]json.RawMessage // key to return value (JSON)
	Unprocessed []string                   // keys of those that have not ended
	Ignored     map[string]string          // key to the reason of a failure that is ignored
	Failed      []string                   // keys of those that fail the job
}

// Dependencies reads the job's children, as they are at one moment (BullMQ:
// getDependencies).
func (j *Job) Dependencies(ctx context.Context) (*Dependencies, error) {
	children, err := j.core.store.Children(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	return &Dependencies{
		Processed: rawValues(children.Processed), Unprocessed: children.Pending, Ignored: children.Ignored, Failed: children.Failed,
	}, nil
}

// DependencyCounts says how many children a job has, by how they stand.
type DependencyCounts struct{ Processed, Unprocessed, Ignored, Failed int64 }

// DependencyCounts counts the job's children (BullMQ: getDependenciesCount).
func (j *Job) DependencyCounts(ctx context.Context) (DependencyCounts, error) {
	n, err := j.core.store.ChildCounts(ctx, j.ID)
	return DependencyCounts{n[0], n[1], n[2], n[3]}, err
}
