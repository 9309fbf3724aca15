package bullmq_test

import (
	"encoding/json"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A job as JSON", func() {
	shown := func(job *bullmq.Job) string {
		GinkgoHelper()
		text, err := json.Marshal(job)
		Expect(err).NotTo(HaveOccurred())
		return string(text)
	}

	It("has Node's names, times in milliseconds, and no empty fields", func() {
		ctx, name := specContext(), newQueueName()
		now := func() time.Time { return time.UnixMilli(1700000000000) }
		queue := newQueue(name, &bullmq.QueueOptions{Now: now})
		_, err := queue.Add(ctx, "paint", map[string]int{"n": 1}, &bullmq.JobOptions{JobID: "a", Attempts: 1, KeepLogs: 3, Backoff: bullmq.FixedBackoff(time.Second)})
		Expect(err).NotTo(HaveOccurred())
		fetcher := newFetcher(name, &bullmq.FetcherOptions{Name: "gopher", Now: now})
		taken, err := fetcher.TryFetch(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(taken.UpdateProgress(ctx, 50)).To(Succeed())
		Expect(shown(taken)).To(MatchJSON(`{"name": "paint", "data": {"n": 1}, "id": "a", "progress": 50, "returnvalue": null, "stacktrace": [],
			"opts": {"attempts": 1, "jobId": "a", "keepLogs": 3, "backoff": {"type": "fixed", "delay": 1000}},
			"delay": 0, "priority": 0, "attemptsStarted": 1, "attemptsMade": 0, "stalledCounter": 0, "timestamp": 1700000000000,
			"processedOn": 1700000000000, "processedBy": "gopher", "token": "token", "queueQualifiedName": "bull:` + name + `"}`))
		err = fetcher.Fail(ctx, taken, errors.New("no <paint>"))
		Expect(err).NotTo(HaveOccurred())
		failed, err := queue.Job(ctx, "a")
		Expect(err).NotTo(HaveOccurred())
		var view map[string]any
		Expect(json.Unmarshal([]byte(shown(failed)), &view)).To(Succeed())
		Expect(view).To(And(HaveKeyWithValue("failedReason", "no <paint>"), HaveKeyWithValue("finishedOn", 1.7e12),
			HaveKeyWithValue("stacktrace", HaveLen(1)), Not(HaveKey("token"))))
	})

	It("has the options of other clients under their public names", func() {
		ctx, name := specContext(), newQueueName()
		redisDo("HSET", keyOf(name, "a"), "name", "n", "data", "1", "opts", `{"kl":2,"fpof":true,"tm":"trace","omc":true,"backoff":5,"newer":[1],"repeatJobKey":"s"}`)
		redisDo("HSET", keyOf(name, "b"), "name", "n", "data", "{no JSON", "opts", "{no JSON")
		queue := newQueue(name, nil)
		job, err := queue.Job(ctx, "a")
		Expect(err).NotTo(HaveOccurred())
		Expect(shown(job)).To(ContainSubstring(`"opts":{"attempts":0,"backoff":{"delay":5,"type":"fixed"},"failParentOnFailure":true,"keepLogs":2,"newer":[1],"telemetry":{"metadata":"trace","omitContext":true}}`))
		job, err = queue.Job(ctx, "b")
		Expect(err).NotTo(HaveOccurred())
		Expect(shown(job)).To(And(ContainSubstring(`"data":"{no JSON"`), ContainSubstring(`"opts":{"attempts":0}`)))
	})

	It("can be made of a job without a queue", func() {
		Expect(shown(&bullmq.Job{ID: "a"})).To(And(ContainSubstring(`"id":"a"`), ContainSubstring(`"data":{}`)))
	})
})
