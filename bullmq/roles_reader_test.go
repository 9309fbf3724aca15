package bullmq_test

import (
	"context"
	"time"

	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var readerTasks = []task{
	{"reads new events", func(p *program) { p.readEvents("") }},
	{"reads events from the beginning", func(p *program) { p.readEvents("0-0") }},
}

// readEvents reads after an id until an event comes that is added after the reader was opened.
func (p *program) readEvents(after string) {
	ctx, cancel := context.WithTimeout(p.ctx, 15*time.Second)
	defer cancel()
	p.others.publish("waiting", "1")
	reader, err := bullmq.NewQueueEvents(ctx, p.name, &bullmq.QueueEventsOptions{Connection: p.connection(p.others.address), LastEventID: after, Logger: p.logger()})
	p.Expect(err).NotTo(HaveOccurred())
	defer reader.Close()
	p.others.publish("waiting", "2")
	var read []string
	for event, err := range reader.All(ctx) {
		p.Expect(err).NotTo(HaveOccurred())
		if read = append(read, event.JobID); event.JobID == "2" || p.failed() != nil {
			break
		}
	}
	if after == "" {
		p.Expect(read).To(Equal([]string{"2"}))
	} else {
		p.Expect(read).To(Equal([]string{"1", "2"}))
	}
	p.Expect(reader.Close()).To(Succeed())
}
