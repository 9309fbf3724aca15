package bullmqtest_test

// The code of docs/testing.md. A test in docs compares them.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

type Order struct {
	ID    string `json:"id"`
	Email string `json:"email"`
}

type Invoice struct {
	Number string `json:"number"`
}

var (
	Bill = bullmq.Define[Order, Invoice]("bill", bullmq.JobOptions{
		Attempts: 3, Backoff: bullmq.FixedBackoff(30 * time.Minute),
	})
	Remind = bullmq.Define[Order, any]("remind")
)

var errNoAddress = errors.New("the order has no address")

// bill is a handler.
func bill(ctx context.Context, job *bullmq.Job, order Order) (Invoice, error) {
	if order.Email == "" {
		return Invoice{}, errNoAddress
	}
	bullmq.LoggerFromContext(ctx).Info("billed", "order", order.ID)
	return Invoice{Number: "2030-" + order.ID}, job.UpdateProgress(ctx, 100)
}

// checkout is a part of a program that adds jobs.
func checkout(ctx context.Context, queue *bullmq.Queue, order Order) error {
	if _, err := Bill.Add(ctx, queue, order, nil); err != nil {
		return err
	}
	_, err := Remind.Add(ctx, queue, order, &bullmq.JobOptions{Delay: 7 * 24 * time.Hour})
	return err
}

// handlers returns the handlers of the program.
func handlers() *bullmq.Mux {
	mux := bullmq.NewMux()
	bullmq.Handle(mux, Bill, bill)
	bullmq.Handle(mux, Remind, func(context.Context, *bullmq.Job, Order) (any, error) { return nil, nil })
	return mux
}

func TestBillNamesTheOrder(t *testing.T) {
	order := Order{ID: "17", Email: "ada@example.org"}
	job := bullmqtest.NewJob(t, Bill, order, nil)

	invoice, err := bill(job.Context(), job.Job, order)
	if err != nil || invoice.Number != "2030-17" {
		t.Fatalf("got %v, %v", invoice, err)
	}
	if lines := job.LoggerLines(); len(lines) != 1 {
		t.Errorf("the handler logged %q", lines)
	}
	if reports := job.ProgressReports(); len(reports) != 1 {
		t.Errorf("the handler reported %s", reports)
	}
}

func TestBillIsRetriedAfterHalfAnHour(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	result := bullmqtest.Work(t, kit, handlers().ServeJob, Bill, Order{ID: "17"}, nil)
	if !errors.Is(result.Err, errNoAddress) || result.State != bullmq.StateDelayed {
		t.Fatalf("the job is %s after %v", result.State, result.Err)
	}
	if wait := result.NextAttempt.Sub(kit.Now()); wait != 30*time.Minute {
		t.Errorf("the next attempt is in %v", wait)
	}
}

func TestCheckoutBillsAndReminds(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	order := Order{ID: "17", Email: "ada@example.org"}
	if err := checkout(t.Context(), kit.Queue("orders"), order); err != nil {
		t.Fatal(err)
	}

	bullmqtest.RequireAdded(t, kit, "orders", Bill, bullmqtest.Match{Data: order, Attempts: 3})
	bullmqtest.RequireAdded(t, kit, "orders", Remind, bullmqtest.Match{Delay: 7 * 24 * time.Hour})
	bullmqtest.RequireNotAdded(t, kit, "orders", Remind, bullmqtest.Match{Data: Order{ID: "18"}})
	bullmqtest.RequireAddedInOrder(t, kit, "orders",
		bullmqtest.Expect(Bill, bullmqtest.Match{}), bullmqtest.Expect(Remind, bullmqtest.Match{}))
}

func TestEachOrderIsBilledAndReminded(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	order := Order{ID: "17", Email: "ada@example.org"}
	if err := checkout(t.Context(), kit.Queue("orders"), order); err != nil {
		t.Fatal(err)
	}

	attempts := kit.Drain(t.Context(), "orders", handlers().ServeJob, nil)
	if len(attempts) != 1 {
		t.Errorf("%d attempts ran at once", len(attempts))
	}
	attempts = kit.Drain(t.Context(), "orders", handlers().ServeJob,
		&bullmqtest.DrainOptions{FollowDelays: 7 * 24 * time.Hour})
	if len(attempts) != 1 {
		t.Errorf("%d attempts ran within a week", len(attempts))
	}
}

func TestTheServerRunsTheReminder(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	server := bullmq.NewServer(kit.Conn(), kit.ServerOptions())
	server.Handle("orders", handlers().ServeJob, nil)
	kit.StartServer(server)

	job, err := Remind.Add(t.Context(), kit.Queue("orders"), Order{ID: "17"}, &bullmq.JobOptions{Delay: 7 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	kit.Advance(7 * 24 * time.Hour)
	if result := bullmqtest.WaitFinished(t, kit, "orders", Remind, job.ID); result.Err != nil {
		t.Errorf("the reminder has failed: %v", result.Err)
	}
}

func TestAHandlerStopsWhenItsLockIsLost(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	result := bullmqtest.Work(t, kit, func(ctx context.Context, job *bullmq.Job) (any, error) {
		kit.LoseLock(job)
		<-ctx.Done() // what the real handler must do
		return nil, context.Cause(ctx)
	}, Bill, Order{ID: "17"}, nil)
	if !errors.Is(result.Err, bullmq.ErrLockLost) {
		t.Errorf("the handler returned %v", result.Err)
	}
}

func TestCheckoutReportsAnOutage(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	queue := kit.Queue("orders")
	kit.Redis().Down()
	if err := checkout(t.Context(), queue, Order{ID: "17"}); err == nil {
		t.Error("checkout succeeded without Redis")
	}
	kit.Redis().Up()
	if err := checkout(t.Context(), queue, Order{ID: "17"}); err != nil {
		t.Error(err)
	}
}

func TestBillKeepsItsContractWithNode(t *testing.T) {
	job := bullmqtest.NewJob(t, Bill, Order{ID: "17", Email: "ada@example.org"}, nil)
	bullmqtest.RequireWire(t, job.Job, "testdata/bill.json")
}
