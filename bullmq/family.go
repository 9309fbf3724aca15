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
	children := make(map[string]json.RawMessage, len(values))
	for key, value := range values {
		children[key] = json.RawMessage(value)
	}
	return children, nil
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

// Dependencies reads the job's children (BullMQ: getDependencies).
func (j *Job) Dependencies(ctx context.Context) (*Dependencies, error) {
	values, err := j.ChildrenValues(ctx)
	if err != nil {
		return nil, err
	}
	d := &Dependencies{Processed: values}
	if d.Ignored, err = j.core.store.Ignored(ctx, j.ID); err != nil {
		return nil, err
	}
	d.Unprocessed, d.Failed, err = j.core.store.Children(ctx, j.ID)
	return d, err
}

// DependencyCounts says how many children a job has, by how they stand.
type DependencyCounts struct{ Processed, Unprocessed, Ignored, Failed int64 }

// DependencyCounts counts the job's children (BullMQ: getDependenciesCount).
func (j *Job) DependencyCounts(ctx context.Context) (DependencyCounts, error) {
	n, err := j.core.store.ChildCounts(ctx, j.ID)
	return DependencyCounts{n[0], n[1], n[2], n[3]}, err
}
