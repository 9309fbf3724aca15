package bullmq_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// runFlow adds a flow, runs its jobs, which are all in the queue "orders", and prints
// the result of the root.
func runFlow(flow bullmq.Flow, handler bullmq.Handler) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer flows.Close()
	worker, err := bullmq.NewWorker(ctx, "orders", handler, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()

	root, err := flows.Add(ctx, flow)
	if err != nil {
		log.Fatal(err)
	}
	value, err := root.Job.Wait(ctx, queue)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s returned %s\n", root.Job.Name, value)
}

// Add adds a job and its children in one transaction.
func ExampleFlowProducer_Add() {
	ctx := context.Background()
	_, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer flows.Close()

	house, err := flows.Add(ctx, bullmq.Flow{
		Name: "sell", QueueName: "houses",
		Children: []bullmq.Flow{
			{Name: "paint", QueueName: "orders", Data: Paint{Colour: "red"}},
			// If the photo fails, the house is sold without it.
			{Name: "photo", QueueName: "photos", Options: &bullmq.JobOptions{OnFailure: bullmq.IgnoreDependency}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	state, err := house.Job.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(house.Job.Name, "is", state, "with", len(house.Children), "children")
	// Output: sell is waiting-children with 2 children
}

// A parent reads the results of its children.
func ExampleChildren() {
	runFlow(bullmq.FanOut(
		bullmq.Flow{Name: "sum", QueueName: "orders"},
		bullmq.Flow{Name: "wall", QueueName: "orders", Data: 12},
		bullmq.Flow{Name: "wall", QueueName: "orders", Data: 30},
	), func(ctx context.Context, job *bullmq.Job) (any, error) {
		if job.Name == "wall" {
			var area int
			err := job.Decode(&area)
			return area, err
		}
		walls, err := bullmq.Children[int](ctx, job)
		if err != nil {
			return nil, err
		}
		sum := 0
		for _, wall := range walls {
			if wall.Err != nil {
				return nil, wall.Err // only if a failed child does not fail its parent
			}
			sum += wall.Value
		}
		return sum, nil
	})
	// Output: sum returned 42
}

// Children with results of different types are told apart by their names.
func ExampleChildren_byName() {
	runFlow(bullmq.FanOut(
		bullmq.Flow{Name: "offer", QueueName: "orders"},
		bullmq.Flow{Name: "price", QueueName: "orders"},
		bullmq.Flow{Name: "colours", QueueName: "orders"},
	), func(ctx context.Context, job *bullmq.Job) (any, error) {
		switch job.Name {
		case "price":
			return 12.5, nil
		case "colours":
			return []string{"red", "blue"}, nil
		}
		children, err := bullmq.Children[json.RawMessage](ctx, job)
		if err != nil {
			return nil, err
		}
		var price float64
		var colours []string
		for _, child := range children {
			switch child.Name {
			case "price":
				err = json.Unmarshal(child.Value, &price)
			case "colours":
				err = json.Unmarshal(child.Value, &colours)
			}
			if err := cmp.Or(child.Err, err); err != nil {
				return nil, err
			}
		}
		return fmt.Sprintf("%v each, in %d colours", price, len(colours)), nil
	})
	// Output: offer returned "12.5 each, in 2 colours"
}

// Each step of a chain receives the result of the previous one.
func ExampleChain() {
	runFlow(bullmq.Chain(
		bullmq.Flow{Name: "sand", QueueName: "orders"},
		bullmq.Flow{Name: "coat", QueueName: "orders"},
		bullmq.Flow{Name: "paint", QueueName: "orders"},
	), func(ctx context.Context, job *bullmq.Job) (any, error) {
		if job.Name == "sand" {
			return "sanded", nil
		}
		done, err := bullmq.ChildValue[string](ctx, job)
		if err != nil {
			return nil, err
		}
		return done + ", then " + job.Name + "ed", nil
	})
	// Output: paint returned "sanded, then coated, then painted"
}

// A child with FailParent fails its parent too. Without OnFailure the parent would wait
// until the child is retried and completes.
func ExampleParentPolicy() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	flows, err := bullmq.NewFlowProducer(ctx, &bullmq.FlowProducerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	defer flows.Close()
	worker, err := bullmq.NewWorker(ctx, "orders", func(_ context.Context, job *bullmq.Job) (any, error) {
		return nil, fmt.Errorf("can't %s", job.Name)
	}, &bullmq.WorkerOptions{Connection: connection})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()

	root, err := flows.Add(ctx, bullmq.Flow{
		Name: "sell", QueueName: "orders", Options: &bullmq.JobOptions{JobID: "house"},
		Children: []bullmq.Flow{{
			Name: "paint", QueueName: "orders",
			Options: &bullmq.JobOptions{JobID: "wall", OnFailure: bullmq.FailParent},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = root.Job.Wait(ctx, queue)
	fmt.Println(err)
	// Output: bullmq: job house of orders failed: child bull:orders:wall failed
}

// A handler can add children to its own job and wait for them. It is called again when
// they have finished.
func ExampleJob_MoveToWaitingChildren() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	queue, connection, stop := queueForExample(ctx, bullmq.QueueOptions{})
	defer stop()
	worker, err := bullmq.NewWorker(ctx, "orders", func(ctx context.Context, job *bullmq.Job) (any, error) {
		if job.Name == "wall" {
			return "painted", nil
		}
		// The custom id makes the add safe to repeat in the second call.
		if _, err := queue.Add(ctx, "wall", nil, &bullmq.JobOptions{JobID: "wall-1", Parent: job.AsParent()}); err != nil {
			return nil, err
		}
		waits, err := job.MoveToWaitingChildren(ctx)
		if err != nil {
			return nil, err
		}
		if waits {
			return nil, bullmq.ErrMovedToWaitingChildren // consumes no attempt
		}
		return bullmq.ChildValue[string](ctx, job)
	}, &bullmq.WorkerOptions{Connection: connection, Concurrency: 2})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = worker.Run(ctx) }()
	defer worker.Close()

	house, err := queue.Add(ctx, "house", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	value, err := house.Wait(ctx, queue)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("returned %s\n", value)
	// Output: returned "painted"
}
