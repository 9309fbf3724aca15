package bullmqhttp_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/nodeprocess"
)

var _ = DescribeTable("Node runs posted jobs of a type, and its own jobs of the type are served:", Label("slow"), func(version string) {
	s, other := startOrders(bill, byOrder, &bullmqhttp.Options{Reason: func(reason string) string { return reason }}, nil), startOrders(bill, nil, nil, nil)
	other.workOrders(billed)

	process := runNode("post.mjs", version, s.queue.Name(), other.queue.Name())
	var line nodeprocess.Line
	Eventually(process.Lines(), "30s").Should(Receive(&line), process.Stderr())
	Expect(line.String()).To(MatchJSON(`{"status":201}`))
	Expect(string(other.get("/orders/order-node", "").job().Result)).To(Equal(`{"status":201}`))

	location := s.order(`{"id":"7","paid":true,"items":[{"count":1},{"price":2.5}]}`).header.Get("Location")
	status := s.ended(location)
	Expect(status.State).To(Equal(bullmqhttp.Succeeded), status.Error)
	Expect(string(status.Result)).To(MatchJSON(`{"status":2,"name":"bill","http":["digest"],"attempts":1}`))
	unpaid := s.ended(s.order(`{"id":"8"}`).header.Get("Location"))
	Expect(unpaid.State).To(Equal(bullmqhttp.Failed))
	Expect(unpaid.Error).To(Equal("the order is not paid"))
	Expect(s.order(`{"id":"7","paid":true,"items":[{"count":1},{"price":2.5}]}`).header.Get("Idempotency-Replayed")).To(Equal("true"))
},
	Entry("bullmq 6", "bullmq"),
	Entry("bullmq 5", "bullmq5"),
)
