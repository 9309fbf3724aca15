package scripts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

var (
	readFlow      = load("readFlow")
	flowAncestors = load("flowAncestors")
)

// FlowReader reads the jobs of flows.
type FlowReader struct{ group *Group }

var _ backend.FlowReader = (*FlowReader)(nil)

// NewFlowReader returns a FlowReader.
func NewFlowReader(client Client) *FlowReader {
	return &FlowReader{NewGroup(client, V6)} // reads alike in both dialects
}

// maxFlowWork is how many members of lists, sets and hashes a call handles, in addition to the
// last job that it reads.
const maxFlowWork = 20_000

// ReadFlow runs one command.
func (r *FlowReader) ReadFlow(ctx context.Context, read backend.FlowRead) (part backend.FlowPart, err error) {
	var queues, jobs []string
	indexes := map[string]int{}
	for _, job := range read.Jobs {
		base := job.Prefix + ":" + job.Queue + ":"
		if indexes[base] == 0 {
			queues = append(queues, base)
			indexes[base] = len(queues)
		}
		jobs = append(jobs, strconv.Itoa(indexes[base]), job.ID, strconv.Itoa(job.Depth))
	}
	args := append([]string{
		r.tag(queues[0]), strconv.Itoa(read.MaxJobs), strconv.Itoa(maxFlowWork), strconv.Itoa(read.Room), strconv.Itoa(read.MaxDepth),
		strconv.Itoa(read.MaxChildren), strconv.Itoa(read.MaxText),
	}, jobs...)
	reply, err := r.group.run(ctx, readFlow, queues, args...)
	if err != nil {
		return part, err
	}
	if len(reply) != 2 {
		return part, aboutQueues(readFlow.name, queues, fmt.Errorf("the reply has an unexpected form: %d parts", len(reply)))
	}
	found, err := reply[0].ToArray()
	if err != nil {
		return part, aboutQueues(readFlow.name, queues, err)
	}
	records, err := reply[1].ToArray()
	if err != nil {
		return part, aboutQueues(readFlow.name, queues, err)
	}
	part.Found = make([]backend.FlowChild, 0, len(found)/3)
	for i := 0; i+2 < len(found); i += 3 {
		parent, _ := found[i+1].AsInt64()
		kind, _ := found[i+2].AsInt64()
		part.Found = append(part.Found, backend.FlowChild{
			JobRef: backend.ParseJobRef(text(found[i])), Parent: int(parent) - 1, Kind: backend.ChildKind(kind),
		})
	}
	part.Records = make([]*backend.FlowRecord, len(records))
	for i, record := range records {
		part.Records[i] = readFlowRecord(record)
	}
	return part, nil
}

// tag returns the hash tag of the keys that a call about a queue can read; "" for all keys.
func (r *FlowReader) tag(base string) string {
	if client, ok := r.group.client.(interface{ IsCluster() bool }); ok && client.IsCluster() {
		return wire.HashTag(base)
	}
	return ""
}

// readFlowRecord reads a job; nil if it was not read.
func readFlowRecord(message rueidis.RedisMessage) *backend.FlowRecord {
	if message.IsInt64() {
		if n, _ := message.ToInt64(); n < 0 {
			return nil
		}
		return &backend.FlowRecord{Missing: true}
	}
	if message.IsArray() {
		reason := "it can't be read"
		if parts := texts(message); len(parts) > 0 {
			reason = parts[0]
		}
		return &backend.FlowRecord{Err: errors.New(reason)}
	}
	fields := strings.SplitN(text(message), ";", 9)
	if len(fields) < 9 {
		return &backend.FlowRecord{Err: fmt.Errorf("the reply has an unexpected form: %d fields", len(fields))}
	}
	record := &backend.FlowRecord{
		State: backend.State(fields[0]), Timestamp: wire.ParseTime(fields[1]), ProcessedOn: wire.ParseTime(fields[2]),
		FinishedOn: wire.ParseTime(fields[3]), AttemptsMade: number(fields[4]), FailedReasonSize: number(fields[5]),
	}
	texts, cut := fields[8], min(number(fields[6]), len(fields[8]))
	record.Name, record.FailedReason = valid(texts[:cut]), valid(texts[cut:])
	if fields[7] != "" {
		var n [4]int
		for i, size := range strings.SplitN(fields[7], ",", len(n)) {
			n[i] = number(size)
		}
		record.Children = backend.ChildCounts{Failed: n[0], Ignored: n[1], Pending: n[2], Processed: n[3]}
	}
	return record
}

// valid returns a text that may have been cut within a character.
func valid(text string) string { return strings.ToValidUTF8(text, "") }

// FlowAncestors runs one command.
func (r *FlowReader) FlowAncestors(ctx context.Context, job backend.JobRef, max int) (found backend.FlowAncestors, err error) {
	queues := []string{job.Prefix + ":" + job.Queue + ":"}
	reply, err := r.group.run(ctx, flowAncestors, queues, r.tag(queues[0]), strconv.Itoa(max), job.ID)
	if err != nil {
		return found, err
	}
	if len(reply) != 2 {
		return found, aboutQueues(flowAncestors.name, queues, fmt.Errorf("the reply has an unexpected form: %d parts", len(reply)))
	}
	found.Jobs, found.End = jobRefs(texts(reply[0])), backend.AncestorsEnd(text(reply[1]))
	return found, nil
}
