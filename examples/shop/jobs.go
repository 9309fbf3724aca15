package main

import (
	"context"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The queues. Jobs of the others that have failed for good are moved to deadQueue.
const (
	ordersQueue  = "orders"
	mailQueue    = "mail"
	reportsQueue = "reports"
	deadQueue    = "dead"
)

// handleQueues registers the queues, with the limits for their jobs.
func (s *shop) handleQueues(mux *bullmq.Mux) {
	dead := &bullmq.DeadLetterOptions{QueueName: deadQueue, OnMoved: s.alert}
	keep := bullmq.KeepFor(48 * time.Hour)
	s.server.Handle(ordersQueue, mux.ServeJob, &bullmq.WorkerOptions{
		Concurrency: 20, KeepCompleted: keep, DeadLetters: dead, KeepFailed: keep, // cancelled orders stay
	})
	s.server.Handle(mailQueue, mux.ServeJob, &bullmq.WorkerOptions{
		Concurrency: 10, KeepCompleted: keep, DeadLetters: dead, Limiter: &bullmq.Limiter{Max: 10, Duration: time.Second},
	})
	s.server.Handle(reportsQueue, mux.ServeJob, &bullmq.WorkerOptions{Concurrency: 5, KeepCompleted: keep, DeadLetters: dead})
}

// schedule adds a report each night.
func (s *shop) schedule(ctx context.Context) error {
	_, err := NightlyReport.Schedule(ctx, s.reports, "nightly", bullmq.Repeat{Pattern: "0 3 * * *", TimeZone: "UTC"}, struct{}{}, nil)
	return err
}

// The types of jobs. Producers in other languages use the same names.
var (
	ProcessOrder  = bullmq.Define[Order, Receipt]("order.process", retried(5))
	SendMail      = bullmq.Define[Mail, bool]("mail.send", retried(3))
	NightlyReport = bullmq.Define[struct{}, string]("report.nightly", retried(3))
	ReportRegion  = bullmq.Define[RegionQuery, RegionSales]("report.region", retried(3))
	ReportTotal   = bullmq.Define[Day, Total]("report.total", retried(3))
)

func retried(attempts int) bullmq.JobOptions {
	return bullmq.JobOptions{Attempts: attempts, Backoff: bullmq.ExponentialBackoff(time.Second)}
}

// Order is the data of ProcessOrder.
type Order struct {
	Number string `json:"number"` // given by the client
	Email  string `json:"email"`
	Region string `json:"region"`
	Cents  int    `json:"cents"`
}

// Progress is the progress of ProcessOrder.
type Progress struct {
	Step    string `json:"step"`
	Percent int    `json:"percent"`
}

// Receipt is the result of ProcessOrder.
type Receipt struct {
	Number string `json:"number"`
	Cents  int    `json:"cents"`
}

// Mail is the data of SendMail.
type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// Day is the data of ReportTotal, such as 2030-12-31.
type Day struct {
	Date string `json:"date"`
}

// RegionQuery is the data of ReportRegion, and RegionSales is its result.
type (
	RegionQuery struct {
		Date   string `json:"date"`
		Region string `json:"region"`
	}
	RegionSales struct {
		Region string `json:"region"`
		Cents  int    `json:"cents"`
	}
)

// Total is the result of ReportTotal.
type Total struct {
	Date    string         `json:"date"`
	Cents   int            `json:"cents"`
	Regions map[string]int `json:"regions"`
}
