package bullmqpush_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// signed returns the headers of a request with a body.
func signed(id string, at time.Time, body string, keys ...string) http.Header {
	GinkgoHelper()
	signature, err := bullmqpush.Sign(keys, id, at, []byte(body))
	Expect(err).NotTo(HaveOccurred())
	h := http.Header{}
	h.Set(bullmqpush.HeaderID, id)
	h.Set(bullmqpush.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(bullmqpush.HeaderSignature, signature)
	return h
}

var _ = Describe("A receiver", func() {
	key, other := bullmqpush.NewKey(), bullmqpush.NewKey()

	It("returns what a worker has sent", func() {
		receiver := bullmqpush.Receiver{Keys: []string{key}}
		deliveries := make(chan *bullmqpush.Delivery, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			delivery, err := receiver.Receive(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			deliveries <- delivery
		}))
		DeferCleanup(server.Close)
		queue := work(server.URL, local(bullmqpush.Options{Keys: []string{key}}))
		job, err := queue.Add(specContext(), "näme", map[string]int{"id": 17}, &bullmq.JobOptions{JobID: "a/b.c%"})
		Expect(err).NotTo(HaveOccurred())
		inState(queue, job.ID, bullmq.StateCompleted)
		delivery := <-deliveries
		Expect(delivery.Queue).To(Equal(queue.Name()))
		Expect(delivery.JobID).To(Equal("a/b.c%"))
		Expect(delivery.Name).To(Equal("näme"))
		Expect(delivery.Attempt).To(Equal(1))
		Expect(delivery.Deadline).To(BeTemporally("~", time.Now().Add(30*time.Second), 10*time.Second))
		Expect(delivery.Data).To(Equal(json.RawMessage(`{"id":17}`)))
		var order struct{ ID int }
		Expect(delivery.Decode(&order)).To(Succeed())
		Expect(order.ID).To(Equal(17))
		var number int
		Expect(delivery.Decode(&number)).To(MatchError(ContainSubstring("decode the data of " + delivery.MessageID)))
	})

	DescribeTable("accepts requests while a key is replaced:", func(senders, receivers []string, valid bool) {
		receiver := bullmqpush.Receiver{Keys: receivers}
		err := receiver.Verify(signed("q/1", time.Now(), "{}", senders...), []byte("{}"))
		if valid {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(MatchError(bullmqpush.ErrSignature))
		}
	},
		Entry("the sender has both", []string{other, key}, []string{key}, true),
		Entry("the receiver has both", []string{key}, []string{other, key}, true),
		Entry("both have both", []string{key, other}, []string{other, key}, true),
		Entry("they have no key in common", []string{other}, []string{key}, false),
	)

	It("accepts the example of Standard Webhooks, except for its age", func() {
		const secret, id, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
		at := time.Unix(1614265330, 0)
		Expect(bullmqpush.Sign([]string{secret}, id, at, []byte(body))).To(Equal("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="))
		header := signed(id, at, body, secret)
		receiver := bullmqpush.Receiver{Keys: []string{secret}}
		Expect(receiver.Verify(header, []byte(body))).To(MatchError(bullmqpush.ErrTimestamp))
		receiver.Tolerance = 100 * 365 * 24 * time.Hour
		Expect(receiver.Verify(header, []byte(body))).To(Succeed())
	})

	DescribeTable("refuses a request:", func(change func(h http.Header), want error) {
		header := signed("q/1", time.Now(), `{"id":17}`, key)
		receiver := bullmqpush.Receiver{Keys: []string{key}}
		Expect(receiver.Verify(header, []byte(`{"id":17}`))).To(Succeed())
		Expect(receiver.Verify(header, []byte(`{"id":18}`))).To(MatchError(bullmqpush.ErrSignature))
		change(header)
		Expect(receiver.Verify(header, []byte(`{"id":17}`))).To(MatchError(want))
	},
		Entry("without a signature", func(h http.Header) { h.Del(bullmqpush.HeaderSignature) }, bullmqpush.ErrSignature),
		Entry("without an id", func(h http.Header) { h.Del(bullmqpush.HeaderID) }, bullmqpush.ErrSignature),
		Entry("without a timestamp", func(h http.Header) { h.Del(bullmqpush.HeaderTimestamp) }, bullmqpush.ErrSignature),
		Entry("with another id", func(h http.Header) { h.Set(bullmqpush.HeaderID, "q/2") }, bullmqpush.ErrSignature),
		Entry("with another timestamp", func(h http.Header) {
			h.Set(bullmqpush.HeaderTimestamp, strconv.FormatInt(time.Now().Unix()+1, 10))
		}, bullmqpush.ErrSignature),
		Entry("with another scheme", func(h http.Header) {
			h.Set(bullmqpush.HeaderSignature, "v1a"+strings.TrimPrefix(h.Get(bullmqpush.HeaderSignature), "v1"))
		}, bullmqpush.ErrSignature),
		Entry("with the begin of the signature", func(h http.Header) {
			h.Set(bullmqpush.HeaderSignature, h.Get(bullmqpush.HeaderSignature)[:11])
		}, bullmqpush.ErrSignature),
		Entry("with an empty signature", func(h http.Header) { h.Set(bullmqpush.HeaderSignature, "v1,") }, bullmqpush.ErrSignature),
		Entry("that is too old", func(h http.Header) {
			replace(h, signed("q/1", time.Now().Add(-6*time.Minute), `{"id":17}`, key))
		}, bullmqpush.ErrTimestamp),
		Entry("from the future", func(h http.Header) {
			replace(h, signed("q/1", time.Now().Add(6*time.Minute), `{"id":17}`, key))
		}, bullmqpush.ErrTimestamp),
	)

	It("refuses the parts of a valid message with other borders", func() {
		now := time.Now()
		stamp := strconv.FormatInt(now.Unix(), 10)
		// Signed is q/1.<stamp>.<stamp>.5, as id q/1, stamp and the number <stamp>.5. It is not accepted as
		// id q/1.<stamp>, stamp and 5.
		header := signed("q/1", now, stamp+".5", key)
		header.Set(bullmqpush.HeaderID, "q/1."+stamp)
		receiver := bullmqpush.Receiver{Keys: []string{key}}
		Expect(receiver.Verify(header, []byte("5"))).To(MatchError(bullmqpush.ErrSignature))
	})

	It("refuses a body that is too large without reading all of it", func() {
		receiver := bullmqpush.Receiver{Keys: []string{key}, MaxBody: 10}
		body := strings.NewReader(strings.Repeat("a", 1000))
		request := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(body))
		_, err := receiver.Receive(request)
		Expect(err).To(MatchError(bullmqpush.ErrTooLarge))
		Expect(body.Len()).To(BeNumerically(">", 400))
	})

	It("returns an error of the read, and an error about its keys that does not contain them", func() {
		receiver := bullmqpush.Receiver{Keys: []string{key}}
		lost := errors.New("lost")
		_, err := receiver.Receive(httptest.NewRequest(http.MethodPost, "/", failingReader{lost}))
		Expect(err).To(MatchError(lost))
		for _, keys := range [][]string{nil, {"whsec_secret!"}} {
			receiver.Keys = keys
			err = receiver.Verify(signed("q/1", time.Now(), "{}", key), []byte("{}"))
			Expect(err).To(MatchError(ContainSubstring("key")))
			Expect(err).NotTo(MatchError(ContainSubstring("secret")))
		}
	})
})

func replace(h, by http.Header) {
	for name, values := range by {
		h[name] = values
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
