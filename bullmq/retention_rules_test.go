package bullmq

import (
	"encoding/json"
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var _ = Describe("Retention", func() {
	DescribeTable("is encoded as BullMQ does:", func(keep Retention, wire string, want backend.Keep) {
		text, err := json.Marshal(keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchJSON(wire))
		Expect(keep.String()).To(MatchJSON(wire))
		Expect(keep.withDefault(KeepLast(99))).To(Equal(want))
		Expect(keep.IsZero()).To(BeFalse())
	},
		Entry("none", KeepNone(), `true`, backend.Keep{Count: backend.Int(0)}),
		Entry("all", KeepAll(), `false`, backend.Keep{Count: backend.Int(-1)}),
		Entry("a number", KeepLast(5), `5`, backend.Keep{Count: backend.Int(5)}),
		Entry("an age", KeepFor(time.Hour), `{"age":3600}`, backend.Keep{Age: backend.Int(3600)}),
		Entry("an age and a number", KeepWithin(RetentionLimits{Age: time.Minute, Count: 10}), `{"age":60,"count":10}`, backend.Keep{Age: backend.Int(60), Count: backend.Int(10)}),
		Entry("an age, a number and a limit", KeepWithin(RetentionLimits{Age: time.Minute, Count: 10, Removals: 200}), `{"age":60,"count":10,"limit":200}`,
			backend.Keep{Age: backend.Int(60), Count: backend.Int(10), Removals: backend.Int(200)}),
		Entry("an age that is rounded up to a whole second", KeepFor(1500*time.Millisecond), `{"age":2}`, backend.Keep{Age: backend.Int(2)}),
		Entry("an age of less than a second", KeepFor(time.Millisecond), `{"age":1}`, backend.Keep{Age: backend.Int(1)}),
	)

	DescribeTable("is decoded from every form that clients write:", func(wire string, want backend.Keep) {
		var keep Retention
		Expect(json.Unmarshal([]byte(wire), &keep)).To(Succeed())
		Expect(keep.withDefault(Retention{})).To(Equal(want))
		Expect(json.Marshal(keep)).To(MatchJSON(wire))
	},
		Entry("true", `true`, backend.Keep{Count: backend.Int(0)}),
		Entry("false", `false`, backend.Keep{Count: backend.Int(-1)}),
		Entry("0", `0`, backend.Keep{Count: backend.Int(0)}),
		Entry("-1", `-1`, backend.Keep{Count: backend.Int(-1)}),
		Entry("a number", `1000`, backend.Keep{Count: backend.Int(1000)}),
		Entry("a count", `{"count":3}`, backend.Keep{Count: backend.Int(3)}),
		Entry("a count of zero", `{"count":0}`, backend.Keep{Count: backend.Int(0)}),
		Entry("an age", `{"age":0}`, backend.Keep{Age: backend.Int(0)}),
		Entry("all fields", `{"age":10,"count":20,"limit":30}`, backend.Keep{Age: backend.Int(10), Count: backend.Int(20), Removals: backend.Int(30)}),
		Entry("unknown fields, which are ignored", `{"count":3,"colour":"red"}`, backend.Keep{Count: backend.Int(3)}),
		Entry("fields of wrong types, which are ignored", `{"count":"3","age":true}`, backend.Keep{}),
		Entry("an empty object", `{}`, backend.Keep{}),
	)

	DescribeTable("cannot be decoded from", func(wire string) {
		var keep Retention
		Expect(json.Unmarshal([]byte(wire), &keep)).To(MatchError(ContainSubstring("true, false, a number")))
	},
		Entry("a text", `"5"`),
		Entry("a list", `[5]`),
	)

	It("keeps jobs for the longest age that Go can express", func() {
		longest := time.Duration(math.MaxInt64).Truncate(time.Millisecond)
		Expect(json.Marshal(KeepFor(longest))).To(MatchJSON(`{"age":9223372037}`))
		Expect(KeepFor(longest).check("KeepCompleted")).To(Succeed())
	})

	It("is not set by null or by an empty value", func() {
		keep := KeepLast(3)
		Expect(json.Unmarshal([]byte(`null`), &keep)).To(Succeed())
		Expect(keep.IsZero()).To(BeTrue())
		Expect(json.Marshal(Retention{})).To(MatchJSON(`null`))
	})

	It("is chosen by the job, then by the worker, and otherwise keeps all", func() {
		Expect(KeepLast(1).withDefault(KeepLast(2))).To(Equal(backend.Keep{Count: backend.Int(1)}))
		Expect(KeepAll().withDefault(KeepNone())).To(Equal(backend.Keep{Count: backend.Int(-1)}))
		Expect(Retention{}.withDefault(KeepLast(2))).To(Equal(backend.Keep{Count: backend.Int(2)}))
		Expect(Retention{}.withDefault(Retention{})).To(Equal(backend.Keep{Count: backend.Int(-1)}))
	})
})
