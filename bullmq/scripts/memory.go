package scripts

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var estimateMemory = load("estimateMemory")

// memoryElements is how many elements of a key MEMORY USAGE looks at. A job has fewer fields.
const memoryElements = 30

// Memory runs one command for all queues.
func (f *QueueFinder) Memory(ctx context.Context, queues []string, samples int) ([]backend.QueueMemory, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	group := NewGroup(f.client, V6) // reads alike in both dialects
	reply, err := group.run(ctx, estimateMemory, queues, strconv.Itoa(samples), strconv.Itoa(memoryElements))
	if err != nil {
		return nil, err
	}
	memory := make([]backend.QueueMemory, len(queues))
	return memory, group.each(estimateMemory, queues, reply, func(i int, reply rueidis.RedisMessage) {
		parts, err := errorOf(estimateMemory, queues[i], reply)
		if err == nil && len(parts) != 4 {
			err = aboutQueues(estimateMemory.name, queues[i:i+1], fmt.Errorf("the reply has an unexpected form: %d parts", len(parts)))
		}
		if err != nil {
			memory[i].Err = err
			return
		}
		memory[i] = readMemory(parts)
	})
}

func readMemory(parts []rueidis.RedisMessage) backend.QueueMemory {
	m := backend.QueueMemory{Jobs: map[backend.State]backend.SampledMemory{}}
	permitted, _ := parts[0].AsInt64()
	m.Measured = permitted == 1
	if own, err := parts[1].AsIntSlice(); err == nil && len(own) == 3 {
		m.Keys, m.Bytes, m.Events = own[0], own[1], own[2]
	}
	states, _ := parts[2].ToArray()
	for i, state := range states[:min(len(states), len(countedStates))] {
		m.Jobs[countedStates[i]] = readSample(state)
	}
	m.Schedulers = readSample(parts[3])
	return m
}

func readSample(message rueidis.RedisMessage) (s backend.SampledMemory) {
	if n, err := message.AsIntSlice(); err == nil && len(n) == 4 {
		s = backend.SampledMemory{Count: n[0], Sampled: n[1], Keys: n[2], Bytes: n[3]}
	}
	return s
}
