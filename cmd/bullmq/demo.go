package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The jobs of the demo shop.
var (
	demoOrder     = bullmq.Define[demoPurchase, demoReceipt]("fulfil-order", bullmq.JobOptions{Attempts: 2})
	demoCharge    = bullmq.Define[demoPayment, demoReceipt]("charge-card", bullmq.JobOptions{Attempts: 4, Backoff: bullmq.ExponentialBackoff(2 * time.Second)})
	demoReserve   = bullmq.Define[demoPurchase, demoReceipt]("reserve-stock", bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(3 * time.Second)})
	demoInvoice   = bullmq.Define[demoPurchase, demoFile]("render-invoice", bullmq.JobOptions{Attempts: 2})
	demoMail      = bullmq.Define[demoMessage, demoReceipt]("send-mail", bullmq.JobOptions{Attempts: 5, Backoff: bullmq.ExponentialBackoff(time.Second)})
	demoReminder  = bullmq.Define[demoMessage, demoReceipt]("review-reminder")
	demoThumbnail = bullmq.Define[demoPicture, demoFile]("resize")
	demoReport    = bullmq.Define[demoPeriod, demoFile]("sales-report")
	demoStock     = bullmq.Define[demoPeriod, demoReceipt]("check-stock")
)

type demoPurchase struct {
	Order    int      `json:"order"`
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
	Total    float64  `json:"total"`
}

type demoPayment struct {
	Order  int     `json:"order"`
	Amount float64 `json:"amount"`
	Card   string  `json:"card"`
}

type demoMessage struct {
	To       string `json:"to"`
	Template string `json:"template"`
	Order    int    `json:"order,omitempty"`
}

type demoPicture struct {
	Product string `json:"product"`
	Widths  []int  `json:"widths"`
}

type demoPeriod struct {
	Shop string `json:"shop"`
}

type demoReceipt struct {
	Reference string `json:"reference"`
}

type demoFile struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// demoProgress is the progress of the jobs of the demo.
type demoProgress struct {
	Percent int    `json:"percent"`
	Step    string `json:"step"`
}

const (
	demoLetters     = "dead-letters"
	demoMetrics     = 24 * 60 // minutes
	demoShutdown    = 5 * time.Second
	demoServerPause = time.Second

	// So that the demo may run for days, what it stores is bounded.
	demoCompleted = 100              // finished jobs that each queue keeps
	demoFailed    = 50               //
	demoEvents    = 500              // events that each queue keeps
	demoBacklog   = 250              // unfinished jobs with which no more are added
	demoLetterAge = 10 * time.Minute // dead letters that are kept
	demoTidyEvery = time.Minute
)

var errDeclined = errors.New("the bank has declined the card: insufficient funds")

// demoWorkers are the workers of the demo, by their queues.
func demoWorkers() map[string]bullmq.WorkerOptions {
	return map[string]bullmq.WorkerOptions{
		"orders":     {Concurrency: 8},
		"payments":   {Concurrency: 4, DeadLetters: &bullmq.DeadLetterOptions{QueueName: demoLetters}},
		"inventory":  {Concurrency: 4},
		"invoices":   {Concurrency: 2},
		"mails":      {Concurrency: 3, Limiter: &bullmq.Limiter{Max: 5, Duration: time.Second}},
		"thumbnails": {Concurrency: 2},
		"reports":    {Concurrency: 1},
	}
}

// runDemo adds and runs the jobs of the demo until ctx ends. What fails meanwhile is passed to
// warn, and the demo goes on.
func runDemo(ctx context.Context, connection *bullmq.Connection, prefix string, warn func(error)) error {
	mux := bullmq.NewMux()
	bullmq.Handle(mux, demoOrder, fulfil)
	bullmq.Handle(mux, demoCharge, charge)
	bullmq.Handle(mux, demoReserve, reserve)
	bullmq.Handle(mux, demoInvoice, invoice)
	bullmq.Handle(mux, demoMail, mail, bullmq.HandleOptions{Timeout: 10 * time.Second})
	bullmq.Handle(mux, demoReminder, mail)
	bullmq.Handle(mux, demoThumbnail, thumbnail)
	bullmq.Handle(mux, demoReport, report)
	bullmq.Handle(mux, demoStock, checkStock)
	server := bullmq.NewServer(connection, &bullmq.ServerOptions{
		Prefix: prefix, Signals: []os.Signal{}, ShutdownTimeout: demoShutdown, JobLog: &bullmq.JobLogOptions{},
	})
	for name, options := range demoWorkers() {
		options.Name = name + "-worker"
		options.KeepCompleted, options.KeepFailed = bullmq.KeepLast(demoCompleted), bullmq.KeepLast(demoFailed)
		options.MetricsPoints = demoMetrics
		options.DrainDelay = demoServerPause // a Redis in the process can't interrupt a wait
		server.Handle(name, mux.ServeJob, &options)
	}
	shop, err := openShop(ctx, connection, prefix)
	if err != nil {
		return err
	}
	defer shop.close()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	shop.trade(ctx, warn)
	return <-ended
}

// work takes some time, in steps that the progress and the log of the job show.
func work(ctx context.Context, took time.Duration, steps ...string) error {
	for i, step := range steps {
		bullmq.LoggerFromContext(ctx).Info(step)
		if err := bullmq.UpdateProgress(ctx, demoProgress{Percent: 100 * i / len(steps), Step: step}); err != nil {
			return err
		}
		select {
		case <-time.After(took / time.Duration(len(steps)) * time.Duration(50+rand.IntN(100)) / 100):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return bullmq.UpdateProgress(ctx, demoProgress{Percent: 100, Step: "done"})
}

// oneIn reports true once in a number of calls.
func oneIn(n int) bool { return rand.IntN(n) == 0 }

func fulfil(ctx context.Context, _ *bullmq.Job, data demoPurchase) (demoReceipt, error) {
	if err := work(ctx, 2*time.Second, "picking the items", "packing", "printing the label", "handing over to the carrier"); err != nil {
		return demoReceipt{}, err
	}
	if oneIn(25) {
		return demoReceipt{}, fmt.Errorf("order %d: the carrier's API returned 503 Service Unavailable", data.Order)
	}
	return demoReceipt{fmt.Sprintf("parcel-%d", 100000+data.Order)}, nil
}

func charge(ctx context.Context, job *bullmq.Job, data demoPayment) (demoReceipt, error) {
	if err := work(ctx, 600*time.Millisecond, "contacting the bank", "authorizing"); err != nil {
		return demoReceipt{}, err
	}
	switch {
	case data.Order%15 == 3: // an order of the first ones, too
		return demoReceipt{}, bullmq.Unrecoverable(errDeclined)
	case job.AttemptsMade == 0 && oneIn(5):
		return demoReceipt{}, errors.New("dial tcp 192.0.2.7:443: i/o timeout")
	}
	return demoReceipt{fmt.Sprintf("ch_%06d", data.Order)}, nil
}

func reserve(ctx context.Context, _ *bullmq.Job, data demoPurchase) (demoReceipt, error) {
	if err := work(ctx, 300*time.Millisecond, "looking at the shelves"); err != nil {
		return demoReceipt{}, err
	}
	if oneIn(15) {
		return demoReceipt{}, fmt.Errorf("%s is out of stock", data.Items[0])
	}
	return demoReceipt{fmt.Sprintf("shelf-%d", rand.IntN(40))}, nil
}

func invoice(ctx context.Context, _ *bullmq.Job, data demoPurchase) (demoFile, error) {
	if err := work(ctx, 800*time.Millisecond, "collecting the items", "rendering", "uploading"); err != nil {
		return demoFile{}, err
	}
	return demoFile{fmt.Sprintf("invoices/%d.pdf", data.Order), 20_000 + rand.IntN(90_000)}, nil
}

func mail(ctx context.Context, _ *bullmq.Job, data demoMessage) (demoReceipt, error) {
	if err := work(ctx, 150*time.Millisecond, "sending "+data.Template+" to "+data.To); err != nil {
		return demoReceipt{}, err
	}
	if oneIn(12) {
		return demoReceipt{}, errors.New("451 4.7.1 greylisted, try again later")
	}
	return demoReceipt{fmt.Sprintf("<%d@mail.shop.example>", rand.IntN(1e9))}, nil
}

func thumbnail(ctx context.Context, _ *bullmq.Job, data demoPicture) (demoFile, error) {
	var steps []string
	for _, width := range data.Widths {
		steps = append(steps, fmt.Sprintf("resizing to %d pixels", width))
	}
	return demoFile{"pictures/" + data.Product, 4_000 * len(steps)}, work(ctx, 1500*time.Millisecond, steps...)
}

func report(ctx context.Context, _ *bullmq.Job, data demoPeriod) (demoFile, error) {
	steps := make([]string, 20)
	for i := range steps {
		steps[i] = fmt.Sprintf("reading the orders of region %d", i+1)
	}
	return demoFile{"reports/" + data.Shop + ".csv", 180_000}, work(ctx, 15*time.Second, steps...)
}

func checkStock(ctx context.Context, _ *bullmq.Job, _ demoPeriod) (demoReceipt, error) {
	return demoReceipt{"ok"}, work(ctx, 400*time.Millisecond, "counting")
}
