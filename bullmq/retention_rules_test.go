package bullmq

import (
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

var _ = Describe("What is kept of ended jobs", func() {
	DescribeTable("is written as BullMQ spells it", func(keep Retention, wire string, want scripts.Keep) {
		text, err := json.Marshal(keep)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchJSON(wire))
		Expect(keep.String()).To(MatchJSON(wire))
		Expect(keep.orElse(KeepLast(99))).To(Equal(want))
		Expect(keep.IsZero()).To(BeFalse())
	},
		Entry("none", KeepNone(), `true`, scripts.Keep{Count: "0"}),
		Entry("all", KeepAll(), `false`, scripts.Keep{Count: "-1"}),
		Entry("some", KeepLast(5), `5`, scripts.Keep{Count: "5"}),
		Entry("an age", KeepFor(time.Hour, 0, 0), `{"age":3600}`, scripts.Keep{Age: "3600"}),
		Entry("an age and a number", KeepFor(time.Minute, 10, 0), `{"age":60,"count":10}`, scripts.Keep{Age: "60", Count: "10"}),
		Entry("an age, a number and a limit", KeepFor(time.Minute, 10, 200), `{"age":60,"count":10,"limit":200}`,
			scripts.Keep{Age: "60", Count: "10", Limit: "200"}),
		Entry("an age with part of a second, which counts as a whole one", KeepFor(1500*time.Millisecond, 0, 0), `{"age":2}`, scripts.Keep{Age: "2"}),
		Entry("an age of less than a second", KeepFor(time.Millisecond, 0, 0), `{"age":1}`, scripts.Keep{Age: "1"}),
	)

	DescribeTable("is read in every form that some client writes", func(wire string, want scripts.Keep) {
		var keep Retention
		Expect(json.Unmarshal([]byte(wire), &keep)).To(Succeed())
		Expect(keep.orElse(Retention{})).To(Equal(want))
		Expect(json.Marshal(keep)).To(MatchJSON(wire))
	},
		Entry("true", `true`, scripts.Keep{Count: "0"}),
		Entry("false", `false`, scripts.Keep{Count: "-1"}),
		Entry("0", `0`, scripts.Keep{Count: "0"}),
		Entry("-1", `-1`, scripts.Keep{Count: "-1"}),
		Entry("a number", `1000`, scripts.Keep{Count: "1000"}),
		Entry("a count", `{"count":3}`, scripts.Keep{Count: "3"}),
		Entry("a count of none", `{"count":0}`, scripts.Keep{Count: "0"}),
		Entry("an age", `{"age":0}`, scripts.Keep{Age: "0"}),
		Entry("all of them", `{"age":10,"count":20,"limit":30}`, scripts.Keep{Age: "10", Count: "20", Limit: "30"}),
		Entry("what it doesn't know beside them", `{"count":3,"colour":"red"}`, scripts.Keep{Count: "3"}),
		Entry("fields of other types, which don't count", `{"count":"3","age":true}`, scripts.Keep{}),
		Entry("an empty object", `{}`, scripts.Keep{}),
	)

	DescribeTable("is refused in other forms", func(wire string) {
		var keep Retention
		Expect(json.Unmarshal([]byte(wire), &keep)).To(MatchError(ContainSubstring("true, false, a number")))
	},
		Entry("a text", `"5"`),
		Entry("a list", `[5]`),
	)

	It("is not set by null, nor without anything", func() {
		keep := KeepLast(3)
		Expect(json.Unmarshal([]byte(`null`), &keep)).To(Succeed())
		Expect(keep.IsZero()).To(BeTrue())
		Expect(json.Marshal(Retention{})).To(MatchJSON(`null`))
	})

	It("is the job's own choice, then the worker's, then all", func() {
		Expect(KeepLast(1).orElse(KeepLast(2))).To(Equal(scripts.Keep{Count: "1"}))
		Expect(KeepAll().orElse(KeepNone())).To(Equal(scripts.Keep{Count: "-1"}))
		Expect(Retention{}.orElse(KeepLast(2))).To(Equal(scripts.Keep{Count: "2"}))
		Expect(Retention{}.orElse(Retention{})).To(Equal(scripts.Keep{Count: "-1"}))
	})
})
