package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// regions are the parts of a report.
var regions = []string{"north", "south", "online"}

// handleJobs registers the handler of each type of job.
func (s *shop) handleJobs(mux *bullmq.Mux) {
	bullmq.Handle(mux, ProcessOrder, s.processOrder, bullmq.HandleOptions{Timeout: time.Minute})
	bullmq.Handle(mux, SendMail, s.sendMail, bullmq.HandleOptions{Timeout: 10 * time.Second})
	bullmq.Handle(mux, NightlyReport, s.startReport)
	bullmq.Handle(mux, ReportRegion, s.reportRegion)
	bullmq.Handle(mux, ReportTotal, s.reportTotal)
}

// processOrder takes an order through its steps and adds the mail that confirms it.
func (s *shop) processOrder(ctx context.Context, job *bullmq.Job, order Order) (Receipt, error) {
	if order.Cents <= 0 {
		return Receipt{}, bullmq.Unrecoverable(fmt.Errorf("order %s costs nothing", order.Number))
	}
	for i, step := range []string{"reserved", "charged", "packed"} {
		select {
		case <-time.After(s.stepTime):
		case <-ctx.Done(): // cancelled, timed out, or the process stops
			return Receipt{}, context.Cause(ctx)
		}
		if err := bullmq.UpdateProgress(ctx, Progress{Step: step, Percent: (i + 1) * 100 / 3}); err != nil {
			return Receipt{}, err
		}
	}
	// The id makes an attempt that runs again add no second mail.
	_, err := SendMail.Add(ctx, s.mail, Mail{To: order.Email, Subject: "order " + order.Number}, &bullmq.JobOptions{JobID: "order-" + job.ID})
	return Receipt{Number: order.Number, Cents: order.Cents}, err
}

// sendMail would call a mail service. The queue's limit protects that service.
func (s *shop) sendMail(ctx context.Context, _ *bullmq.Job, mail Mail) (bool, error) {
	if !strings.Contains(mail.To, "@") {
		return false, bullmq.Unrecoverable(errors.New("no address: " + mail.To))
	}
	bullmq.LoggerFromContext(ctx).InfoContext(ctx, "mail sent", "to", mail.To, "subject", mail.Subject)
	return true, nil
}

// startReport adds the report of the day on which its job was added. It returns the id of
// the job with the total.
func (s *shop) startReport(ctx context.Context, job *bullmq.Job, _ struct{}) (string, error) {
	return s.addReport(ctx, job.ProcessedOn.UTC().Format(time.DateOnly))
}

// addReport adds the jobs of a report: one for each region, and the total after them. A
// day has one report, however often it is added.
func (s *shop) addReport(ctx context.Context, date string) (string, error) {
	var parts []bullmq.Flow
	for _, region := range regions {
		parts = append(parts, ReportRegion.Flow(reportsQueue, RegionQuery{Date: date, Region: region},
			&bullmq.JobOptions{OnFailure: bullmq.FailParent, JobID: "region-" + date + "-" + region}))
	}
	added, err := s.flows.Add(ctx, ReportTotal.Flow(reportsQueue, Day{Date: date}, &bullmq.JobOptions{JobID: "total-" + date}, parts...))
	if err != nil {
		return "", err
	}
	return added.Job.ID, nil
}

// reportRegion adds up the completed orders of a region.
func (s *shop) reportRegion(ctx context.Context, _ *bullmq.Job, query RegionQuery) (RegionSales, error) {
	sales := RegionSales{Region: query.Region}
	jobs, err := s.orders.Jobs(ctx, bullmq.AllEntries(), bullmq.StateCompleted)
	if err != nil {
		return sales, err
	}
	for _, job := range jobs {
		order, err := ProcessOrder.Data(job)
		if err == nil && order.Region == query.Region && job.FinishedOn.UTC().Format(time.DateOnly) == query.Date {
			sales.Cents += order.Cents
		}
	}
	return sales, nil
}

// reportTotal adds up the regions of a report.
func (s *shop) reportTotal(ctx context.Context, job *bullmq.Job, day Day) (Total, error) {
	total := Total{Date: day.Date, Regions: map[string]int{}}
	parts, err := bullmq.Children[RegionSales](ctx, job)
	if err != nil {
		return total, err
	}
	for _, part := range parts {
		if part.Err != nil {
			return total, part.Err
		}
		total.Regions[part.Value.Region] = part.Value.Cents
		total.Cents += part.Value.Cents
	}
	return total, nil
}

// alert is called once for each job that has failed for good. A real shop would send a
// message to somebody.
func (s *shop) alert(ctx context.Context, letter bullmq.DeadLetter) {
	s.logger.ErrorContext(ctx, "a job has failed for good", "queue", letter.QueueName, "job", letter.JobID, "name", letter.Name, "reason", letter.Reason)
}
