package parity_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

func result(text string) parity.Response { return parity.Response{Result: json.RawMessage(text)} }

func refusal(message string, code ...int) parity.Response {
	refused := &parity.Refusal{Message: message}
	if len(code) > 0 {
		refused.Code = &code[0]
	}
	return parity.Response{Error: refused}
}

var _ = Describe("Comparing responses", func() {
	DescribeTable("finds a difference", func(op string, reference, subject parity.Response) {
		difference, _ := parity.CompareResponses(op, reference, subject, present)
		Expect(difference).NotTo(BeNil())
		difference, _ = parity.CompareResponses(op, subject, reference, present)
		Expect(difference).NotTo(BeNil())
	},
		Entry("in a value", "count", result("1"), result("2")),
		Entry("between null and a value", "fetch", result("null"), result(`{"id":"1"}`)),
		Entry("between a number and its text", "rateLimitTtl", result("0"), result(`"0"`)),
		Entry("in the fields of a job", "job", result(`{"id":"1","delay":0}`), result(`{"id":"1"}`)),
		Entry("in the order of a list", "jobs", result(`[{"id":"1"},{"id":"2"}]`), result(`[{"id":"2"},{"id":"1"}]`)),
		Entry("in the order of a list in a job's data", "dependencies", result(`{"data":[1,2]}`), result(`{"data":[2,1]}`)),
		Entry("in the members of a list read from a set", "dependencies", result(`{"unprocessed":["a","b"]}`), result(`{"unprocessed":["a","c"]}`)),
		Entry("in a list read from a set that has a member twice", "clean", result(`["1","1","2"]`), result(`["1","2","2"]`)),
		Entry("between an empty and a missing list of children outside trees", "job", result(`{"children":[]}`), result(`{}`)),
		Entry("between times of a stopped clock", "job", result(`{"timestamp":1700000000000}`), result(`{"timestamp":1700000000001}`)),
		Entry("between times of the run that are too far apart", "job", result(`{"timestamp":`+nowHere+`}`), result(`{"timestamp":`+muchLater+`}`)),
		Entry("between times of the run in a return value", "job", result(`{"returnvalue":`+nowHere+`}`), result(`{"returnvalue":`+nowThere+`}`)),
		Entry("between a result and an error", "add", result(`{"id":"1"}`), refusal("no")),
		Entry("between error codes", "complete", refusal("x", -2), refusal("x", -6)),
		Entry("between an error with a code and one without", "complete", refusal("x", -2), refusal("x")),
	)

	DescribeTable("ignores", func(op string, reference, subject parity.Response, note string) {
		difference, got := parity.CompareResponses(op, reference, subject, present)
		Expect(difference).To(BeNil())
		Expect(got).To(ContainSubstring(note))
	},
		Entry("the order of an object's fields", "counts", result(`{"active":1,"waiting":2}`), result(`{"waiting":2,"active":1}`), ""),
		Entry("small differences between times of the run", "job", result(`{"timestamp":`+nowHere+`,"returnvalue":null}`), result(`{"timestamp":`+nowThere+`,"returnvalue":null}`), ""),
		Entry("the order of a list read from a set", "dependencies", result(`{"processed":{"c":1},"unprocessed":["a","b"]}`), result(`{"unprocessed":["b","a"],"processed":{"c":1}}`), ""),
		Entry("the order of the children in trees", "flowTree", result(`{"id":"r","children":[{"id":"a"},{"id":"b"}]}`), result(`{"id":"r","children":[{"id":"b"},{"id":"a"}]}`), ""),
		Entry("the difference between empty and missing children in trees", "addFlow", result(`{"id":"r","children":[{"id":"a","children":[]}]}`), result(`{"id":"r","children":[{"id":"a"}]}`), ""),
		Entry("the text of an error with a code, and notes it", "complete", refusal("Missing lock", -2), refusal("lock is gone", -2), `"Missing lock" and "lock is gone"`),
		Entry("the text of an error without a code, and notes it", "add", refusal("one"), refusal("other"), "error texts differ"),
	)
})
