package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

var order = Order{Number: "A1", Email: "ada@example.org", Region: "north", Cents: 4200}

// newShop returns a shop whose handlers can be called. Its server does not run.
func newShop(t *testing.T, kit *bullmqtest.Kit) *shop {
	t.Helper()
	s := &shop{logger: slog.New(slog.DiscardHandler)}
	if err := s.open(t.Context(), kit.Conn(), *kit.ServerOptions()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.server.Shutdown(context.Background()) })
	return s
}

// handler returns the handler of all jobs of a shop.
func (s *shop) handler() bullmq.Handler {
	mux := bullmq.NewMux()
	s.handleJobs(mux)
	return mux.ServeJob
}

func TestSendMailLogsTheMail(t *testing.T) {
	mail := Mail{To: "ada@example.org", Subject: "order A1"}
	job := bullmqtest.NewJob(t, SendMail, mail, nil)
	if sent, err := new(shop).sendMail(job.Context(), job.Job, mail); !sent || err != nil {
		t.Errorf("got %v, %v", sent, err)
	}
	if lines := job.LoggerLines(); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
}

func TestProcessOrderReportsItsStepsAndAddsOneMail(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	s := newShop(t, kit)
	job := bullmqtest.NewJob(t, ProcessOrder, order, nil)
	for range 2 { // as if the first attempt had lost its lock after the mail was added
		receipt, err := s.processOrder(job.Context(), job.Job, order)
		if err != nil || receipt != (Receipt{Number: "A1", Cents: 4200}) {
			t.Fatalf("got %v, %v", receipt, err)
		}
	}
	if reports := job.ProgressReports(); len(reports) != 6 || string(reports[5]) != `{"step":"packed","percent":100}` {
		t.Errorf("progress: %s", reports)
	}
	bullmqtest.RequireAdded(t, kit, mailQueue, SendMail, bullmqtest.Match{Data: Mail{To: order.Email, Subject: "order A1"}, Times: 1})
}

func TestJobsThatCannotSucceedFailAtTheFirstAttempt(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	handler := newShop(t, kit).handler()
	if result := bullmqtest.Work(t, kit, handler, ProcessOrder, Order{Number: "A2"}, nil); result.State != bullmq.StateFailed {
		t.Errorf("an order without a price is %s: %v", result.State, result.Err)
	}
	if result := bullmqtest.Work(t, kit, handler, SendMail, Mail{To: "nobody"}, nil); result.State != bullmq.StateFailed {
		t.Errorf("a mail without an address is %s: %v", result.State, result.Err)
	}
}

func TestProcessOrderStopsWhenItIsCancelled(t *testing.T) {
	job := bullmqtest.NewJob(t, ProcessOrder, order, nil)
	ctx, cancel := context.WithCancel(job.Context())
	cancel()
	if _, err := (&shop{stepTime: time.Hour}).processOrder(ctx, job.Job, order); err != context.Canceled {
		t.Errorf("returned %v", err)
	}
}

func TestAReportAddsUpTheOrdersOfADay(t *testing.T) {
	kit := bullmqtest.New(t, nil)
	s := newShop(t, kit)
	handler := s.handler()
	for _, region := range []string{"north", "online", "north"} {
		sold := order
		sold.Region = region
		bullmqtest.Work(t, kit, handler, ProcessOrder, sold, &bullmqtest.WorkOptions{Queue: ordersQueue})
	}
	for range 2 { // a day has one report
		if _, err := s.addReport(t.Context(), kit.Now().UTC().Format(time.DateOnly)); err != nil {
			t.Fatal(err)
		}
	}
	if attempts := kit.Drain(t.Context(), reportsQueue, handler, nil); len(attempts) != 4 {
		t.Errorf("%d jobs ran", len(attempts))
	}
	job := bullmqtest.RequireAdded(t, kit, reportsQueue, ReportTotal, bullmqtest.Match{Times: 1})
	total, err := ReportTotal.Result(job.Job)
	if err != nil || total.Cents != 3*4200 || total.Regions["north"] != 2*4200 || len(total.Regions) != 3 {
		t.Errorf("got %+v, %v", total, err)
	}
}
