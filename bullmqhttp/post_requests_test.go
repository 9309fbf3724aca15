package bullmqhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

var _ = Describe("A request that posts a job of a type", func() {
	const json = "application/json"
	DescribeTable("is refused:", func(status int, code, detail, path, contentType, body string) {
		s := startOrders(bill, nil, &bullmqhttp.Options{MaxBody: 5000}, nil)
		var headers []string
		if contentType != "" {
			headers = []string{"Content-Type", contentType}
		}
		a := s.do("POST", "/orders", body, headers...)
		Expect(a.status).To(Equal(status), a.body)
		Expect(a.code()).To(Equal(code))
		var p bullmqhttp.Problem
		a.decode(&p)
		Expect(p.Detail).To(ContainSubstring(detail))
		Expect(p.Path).To(Equal(path))
		Expect(s.jobs()).To(BeZero())
	},
		Entry("without a type", 415, "UNSUPPORTED_TYPE", "application/json", "", "", `{}`),
		Entry("with another type", 415, "UNSUPPORTED_TYPE", "application/json", "", "text/plain", `{}`),
		Entry("with a form", 415, "UNSUPPORTED_TYPE", "application/json", "", "application/x-www-form-urlencoded", `id=1`),
		Entry("without a body", 400, "INVALID_REQUEST", "unexpected end", "", json, ``),
		Entry("with a body that is null", 400, "INVALID_REQUEST", "null", "", json, ` null`),
		Entry("with half a body", 400, "INVALID_REQUEST", "at byte 8", "", json, `{"id":"1`),
		Entry("with two values", 400, "INVALID_REQUEST", "after top-level value", "", json, `{} {}`),
		Entry("with a body that is not UTF-8", 400, "INVALID_REQUEST", "UTF-8", "", json, "{\"id\":\"\xff\"}"),
		Entry("with a body that is nested deeply", 400, "INVALID_REQUEST", "1000 deep", "", json, `{"x":`+strings.Repeat("[", 1001)+strings.Repeat("]", 1001)+`}`),
		Entry("with a body that is too large", 413, "TOO_LARGE", "5000", "", json, `{"id":"`+strings.Repeat("a", 5000)+`"}`),
		Entry("with an array", 400, "INVALID_REQUEST", "$ must be an object, and is an array", "$", json, `[]`),
		Entry("with a wrong type", 400, "INVALID_REQUEST", "$.items[1].price must be a number, and is a string", "$.items[1].price", json, `{"items":[{},{"price":"1"}]}`),
		Entry("with a number for a text", 400, "INVALID_REQUEST", "$.id must be a string, and is a number", "$.id", json, `{"id":7}`),
		Entry("with a text for a boolean", 400, "INVALID_REQUEST", "$.paid must be true or false, and is a string", "$.paid", json, `{"paid":"yes"}`),
		Entry("with an object for an array", 400, "INVALID_REQUEST", "$.items must be an array, and is an object", "$.items", json, `{"items":{}}`),
		Entry("with a number that is too large", 400, "INVALID_REQUEST", "$.items[0].count must be an integer of 8 bits, and is the number 300", "$.items[0].count", json, `{"items":[{"count":300}]}`),
		Entry("with a boolean for an integer", 400, "INVALID_REQUEST", "$.items[0].count must be an integer, and is true or false", "$.items[0].count", json, `{"items":[{"count":true}]}`),
		Entry("with a text that is no time", 400, "INVALID_REQUEST", "parsing time", "", json, `{"items":[{"due":"soon"}]}`),
	)

	It("is accepted with any type of JSON", func() {
		s := startOrders(bill, nil, nil, nil)
		for _, contentType := range []string{"application/json; charset=utf-8", "application/vnd.order+json"} {
			Expect(s.do("POST", "/orders", `{}`, "Content-Type", contentType).status).To(Equal(http.StatusAccepted))
		}
	})

	It("is refused with other methods", func() {
		s := startOrders(bill, nil, nil, nil)
		for _, method := range []string{"GET", "DELETE", "PATCH"} {
			a := s.do(method, "/orders", `{}`, "Content-Type", json)
			Expect(a.code()).To(Equal(bullmqhttp.CodeMethodNotAllowed))
			Expect(a.header.Get("Allow")).To(Equal("POST, PUT"))
		}
		Expect(s.jobs()).To(BeZero())
	})

	It("is refused as its check says", func() {
		s := startOrders(bill, func(_ *http.Request, o *order, _ *bullmq.JobOptions) error {
			switch o.ID {
			case "unpaid":
				return fmt.Errorf("order %s is not paid", o.ID)
			case "gone":
				return fmt.Errorf("wrapped: %w", &bullmqhttp.Problem{Status: http.StatusGone, Code: "SOLD_OUT", Path: "$.items"})
			}
			return nil
		}, nil, nil)
		a := s.order(`{"id":"unpaid"}`)
		Expect(a.status).To(Equal(http.StatusUnprocessableEntity))
		Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidData))
		Expect(a.body).To(ContainSubstring("order unpaid is not paid"))
		a = s.order(`{"id":"gone"}`)
		Expect(a.code()).To(Equal("SOLD_OUT"))
		Expect(a.body).To(MatchJSON(`{"status":410,"title":"Gone","code":"SOLD_OUT","path":"$.items"}`))
		Expect(s.jobs()).To(BeZero())
		Expect(s.order(`{"id":"1"}`).status).To(Equal(http.StatusAccepted))
	})

	It("has its data and its options as its check sets them", func() {
		s := startOrders(bill, func(r *http.Request, o *order, options *bullmq.JobOptions) error {
			o.ID = r.PathValue("customer") + "-" + r.PathValue("id")
			options.JobID, options.Delay = "order-"+o.ID, time.Hour
			return nil
		}, nil, nil)
		a := s.do("PUT", "/customers/ada/orders/7", `{"paid":true}`, "Content-Type", json)
		Expect(a.status).To(Equal(http.StatusAccepted), a.body)
		Expect(a.header.Get("Location")).To(Equal("/orders/order-ada-7"))
		Expect(a.job().State).To(Equal(bullmqhttp.Scheduled))
		Expect(s.get("/orders/order-ada-7", "").job().State).To(Equal(bullmqhttp.Scheduled))
		stored := s.storedJob("order-ada-7")
		Expect(stored.Options.Attempts).To(Equal(1))
		Expect(bill.Data(stored)).To(Equal(order{ID: "ada-7", Paid: true}))
		Expect(s.do("PUT", "/customers/ada/orders/7", `{"paid":true}`, "Content-Type", json).header.Get("Idempotency-Replayed")).To(Equal("true"))
	})

	It("with an id that it chooses adds one job, however often and at the same time it is repeated", func() {
		s := startOrders(bill, byOrder, nil, nil)
		var all sync.WaitGroup
		var mu sync.Mutex
		replayed := 0
		for range 20 {
			all.Go(func() {
				defer GinkgoRecover()
				a := s.order(`{"id":"ä/7","paid":true}`)
				Expect(a.status).To(Equal(http.StatusAccepted), a.body)
				Expect(a.header.Get("Location")).To(Equal("/orders/order-%C3%A4%2F7"))
				Expect(a.job().ID).To(Equal("order-ä/7"))
				mu.Lock()
				defer mu.Unlock()
				if a.header.Get("Idempotency-Replayed") == "true" {
					replayed++
				}
			})
		}
		all.Wait()
		Expect(replayed).To(Equal(19))
		Expect(s.jobs()).To(Equal(1))
		again := s.order(`{"paid":true,  "id":"ä/7"}`) // the same data
		Expect(again.header.Get("Idempotency-Replayed")).To(Equal("true"))
		Expect(s.get(again.header.Get("Location"), "").status).To(Equal(http.StatusOK))
	})

	It("with the id of another request is refused with 409", func() {
		s := startOrders(bill, byOrder, nil, nil)
		Expect(s.order(`{"id":"7","paid":true}`).status).To(Equal(http.StatusAccepted))
		a := s.order(`{"id":"7"}`)
		Expect(a.status).To(Equal(http.StatusConflict))
		Expect(a.code()).To(Equal(bullmqhttp.CodeJobExists))
		_, err := bill.Add(context.Background(), s.queue, order{ID: "8"}, &bullmq.JobOptions{JobID: "order-8"})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.order(`{"id":"8"}`).code()).To(Equal(bullmqhttp.CodeJobExists)) // of another program
	})

	DescribeTable("with an id that BullMQ can't store is refused with 400:", func(id string) {
		s := startOrders(bill, func(_ *http.Request, o *order, options *bullmq.JobOptions) error {
			options.JobID = o.ID
			return nil
		}, nil, nil)
		a := s.order(fmt.Sprintf(`{"id":%q}`, id))
		Expect(a.status).To(Equal(http.StatusBadRequest), a.body)
		Expect(a.code()).To(Equal(bullmqhttp.CodeInvalidJobID))
		Expect(s.jobs()).To(BeZero())
	},
		Entry("a whole number", "17"), Entry("one colon", "a:b"), Entry("a key of the queue", "meta"),
		Entry("a segment of a path", ".."), Entry("a control character", "a\nb"), Entry("a long one", strings.Repeat("a", 1001)),
	)

	It("with an Idempotency-Key adds one job, and another request with the key is refused with 422", func() {
		s := startOrders(bill, nil, nil, nil)
		first := s.order(`{"paid":true}`, "Idempotency-Key", "k")
		again := s.order(`{"paid":true}`, "Idempotency-Key", "k")
		Expect(again.status).To(Equal(http.StatusAccepted))
		Expect(again.header.Get("Idempotency-Replayed")).To(Equal("true"))
		Expect(again.job().ID).To(And(Equal(first.job().ID), HavePrefix("ik-")))
		other := s.order(`{"paid":false}`, "Idempotency-Key", "k")
		Expect(other.status).To(Equal(http.StatusUnprocessableEntity))
		Expect(other.code()).To(Equal(bullmqhttp.CodeKeyReused))
		Expect(s.order(`{"paid":true}`, "Idempotency-Key", "").code()).To(Equal(bullmqhttp.CodeInvalidRequest))
		Expect(s.jobs()).To(Equal(1))
	})

	It("with a deduplication id gets the job that owns it", func() {
		s := startOrders(bill, func(r *http.Request, o *order, options *bullmq.JobOptions) error {
			options.Deduplication = &bullmq.Deduplication{ID: o.ID}
			return nil
		}, &bullmqhttp.Options{Owner: func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }}, nil)
		first := s.order(`{"id":"7","paid":true}`)
		again := s.order(`{"id":"7"}`)
		Expect(again.status).To(Equal(http.StatusAccepted), again.body)
		Expect(again.header.Get("Idempotency-Replayed")).To(Equal("true"))
		Expect(again.header.Get("Location")).To(Equal(first.header.Get("Location")))
		Expect(again.job().ID).To(Equal(first.job().ID))
		Expect(s.order(`{"id":"7"}`, "User", "bob").code()).To(Equal(bullmqhttp.CodeJobExists))
		s.workOrders(billed)
		Expect(s.ended(first.header.Get("Location")).State).To(Equal(bullmqhttp.Succeeded))
		Expect(s.order(`{"id":"7"}`).job().ID).NotTo(Equal(first.job().ID))
	})

	It("adds a job that other owners neither see nor cancel nor repeat", func() {
		s := startOrders(bill, byOrder, &bullmqhttp.Options{Owner: func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }}, nil)
		location := s.order(`{"id":"7"}`, "User", "ada").header.Get("Location")
		Expect(s.get(location, "", "User", "ada").status).To(Equal(http.StatusOK))
		for _, user := range []string{"bob", ""} {
			Expect(s.get(location, "", "User", user).status).To(Equal(http.StatusNotFound))
			Expect(s.get(location, "/events", "User", user).status).To(Equal(http.StatusNotFound))
			Expect(s.do("DELETE", location, "", "User", user).status).To(Equal(http.StatusNotFound))
			Expect(s.order(`{"id":"7"}`, "User", user).code()).To(Equal(bullmqhttp.CodeJobExists))
		}
		Expect(s.order(`{"id":"7"}`, "User", "ada").header.Get("Idempotency-Replayed")).To(Equal("true"))
		Expect(s.storedJob("order-7").RawOptions).To(ContainSubstring(`"http":{"owner":"ada","digest":"`))
	})

	It("is refused with 429 while too many jobs wait, unless it is repeated", func() {
		s := startOrders(bill, byOrder, &bullmqhttp.Options{MaxWaiting: 1}, nil)
		Expect(s.order(`{"id":"1"}`).status).To(Equal(http.StatusAccepted))
		Expect(s.order(`{"id":"2"}`).code()).To(Equal(bullmqhttp.CodeTooManyWaiting))
		Expect(s.order(`{"id":"1"}`).status).To(Equal(http.StatusAccepted))
	})

	It("is refused with 500 if the job would be in another queue or in a flow", func() {
		s := startOrders(bill, func(_ *http.Request, _ *order, options *bullmq.JobOptions) error {
			options.Target = &bullmq.Target{Region: "north"}
			return nil
		}, nil, nil)
		Expect(s.order(`{}`).code()).To(Equal(bullmqhttp.CodeInternal))
		Expect(s.jobs()).To(BeZero())
	})

	It("is refused with 503 and Retry-After while Redis is down, and accepted when it is back", func() {
		proxy, o := proxied(redis)
		s := startOrders(bill, byOrder, &bullmqhttp.Options{Timeout: time.Second}, o)
		proxy.CutAll()
		Expect(proxy.Set(faultproxy.Faults{BlackHole: true})).To(Succeed())
		a := s.order(`{"id":"7"}`)
		Expect(a.status).To(Equal(http.StatusServiceUnavailable), a.body)
		Expect(a.header.Get("Retry-After")).To(Equal("5"))
		proxy.CutAll()
		Expect(proxy.Set(faultproxy.Faults{})).To(Succeed())
		Eventually(func() int { return s.order(`{"id":"7"}`).status }, boundary).Should(Equal(http.StatusAccepted))
		Expect(s.jobs()).To(Equal(1))
	})

	It("adds one job if the reply of Redis is lost", func() {
		proxy, o := proxied(redis)
		s := startOrders(bill, nil, nil, o)
		s.order(`{}`) // the script is loaded
		lost := proxy.LoseReply("EVALSHA")
		a := s.order(`{}`)
		Expect(lost).To(BeClosed())
		Expect(a.status).To(Equal(http.StatusAccepted), a.body)
		Expect(s.jobs()).To(Equal(2))
	})
})
