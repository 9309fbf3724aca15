package main

import (
	"context"
	"encoding/json"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// tree is a flow in a scenario.
type tree struct {
	Name, QueueName, Prefix string
	Data, Opts              json.RawMessage
	Children                []tree
}

func (t tree) flow() (bullmq.Flow, error) {
	data, err := payload(t.Data)
	if err != nil {
		return bullmq.Flow{}, err
	}
	options, err := jobOptions(t.Opts)
	if err != nil {
		return bullmq.Flow{}, err
	}
	flow := bullmq.Flow{Name: t.Name, QueueName: t.QueueName, Prefix: t.Prefix, Data: data, Options: options}
	for _, child := range t.Children {
		below, err := child.flow()
		if err != nil {
			return bullmq.Flow{}, err
		}
		flow.Children = append(flow.Children, below)
	}
	return flow, nil
}

func viewTree(n *bullmq.FlowNode) any {
	children := []any{}
	for _, child := range n.Children {
		children = append(children, viewTree(child))
	}
	return map[string]any{"id": n.Job.ID, "children": children}
}

func (s *session) flows() (*bullmq.FlowProducer, error) {
	if s.flowProducer != nil {
		return s.flowProducer, nil
	}
	var err error
	s.flowProducer, err = s.newFlows(nil)
	return s.flowProducer, err
}

func (s *session) newFlows(defaults map[string]bullmq.JobOptions) (*bullmq.FlowProducer, error) {
	connection, err := s.connection()
	if err != nil {
		return nil, err
	}
	return bullmq.NewFlowProducer(context.Background(), &bullmq.FlowProducerOptions{Connection: connection, Prefix: s.prefix, Dialect: dialect, Now: s.now, DefaultJobOptions: defaults})
}

func init() {
	operations["addFlow"] = func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a struct {
			Flow          tree
			QueuesOptions map[string]struct{ DefaultJobOptions bullmq.JobOptions }
		}
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		flow, err := a.Flow.flow()
		if err != nil {
			return nil, err
		}
		producer, err := s.flows()
		if a.QueuesOptions != nil && err == nil {
			defaults := map[string]bullmq.JobOptions{}
			for queue, options := range a.QueuesOptions {
				defaults[queue] = options.DefaultJobOptions
			}
			if producer, err = s.newFlows(defaults); err == nil {
				defer producer.Close()
			}
		}
		if err != nil {
			return nil, err
		}
		node, err := producer.Add(ctx, flow)
		if err != nil {
			return nil, err
		}
		return viewTree(node), nil
	}
	operations["addFlowBulk"] = func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a struct{ Flows []tree }
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		flows := make([]bullmq.Flow, len(a.Flows))
		for i, described := range a.Flows {
			var err error
			if flows[i], err = described.flow(); err != nil {
				return nil, err
			}
		}
		producer, err := s.flows()
		if err != nil {
			return nil, err
		}
		nodes, err := producer.AddBulk(ctx, flows)
		if nodes == nil {
			return nil, err
		}
		views := []any{}
		for _, node := range nodes {
			views = append(views, viewTree(node))
		}
		return views, nil
	}
	operations["flowTree"] = func(ctx context.Context, s *session, raw json.RawMessage) (any, error) {
		var a struct {
			Queue, ID          string
			Depth, MaxChildren int
		}
		if err := read(raw, &a); err != nil {
			return nil, err
		}
		producer, err := s.flows()
		if err != nil {
			return nil, err
		}
		node, err := producer.Flow(ctx, bullmq.FlowQuery{QueueName: a.Queue, ID: a.ID, Depth: a.Depth, MaxChildren: a.MaxChildren})
		if known, err := found(err, bullmq.ErrJobNotFound); !known {
			return nil, err
		}
		return viewTree(node), nil
	}
}
