package wire

import (
	"encoding/json"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("JSON on the wire", func() {
	type paint struct {
		Colour string   `json:"colour"`
		Coats  int      `json:"coats,omitempty"`
		Notes  []string `json:"notes"`
	}
	var noPaint *paint

	DescribeTable("is written as JSON.stringify would", func(value any, want string) {
		text, err := EncodeJSON(value)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(Equal(want))
	},
		Entry("nothing", nil, `null`),
		Entry("no pointer", noPaint, `null`),
		Entry("false", false, `false`),
		Entry("zero", 0, `0`),
		Entry("an empty text", "", `""`),
		Entry("an empty list", []int{}, `[]`),
		Entry("an empty object", map[string]int{}, `{}`),
		Entry("a list that was never made", []int(nil), `null`),
		Entry("HTML, unescaped", "<b>&</b>", `"<b>&</b>"`),
		Entry("HTML within an object", map[string]any{"<&>": "<&>"}, `{"<&>":"<&>"}`),
		Entry("emoji, raw", "é😀", `"é😀"`),
		Entry("line separators, raw", "a\u2028b\u2029c", "\"a\u2028b\u2029c\""),
		Entry("a backslash before what looks like a line separator", `\u2028`, `"\\u2028"`),
		Entry("two backslashes before it", `\\u2028`, `"\\\\u2028"`),
		Entry("a quote, then a line separator", "\"\u2028", "\"\\\"\u2028\""),
		Entry("the escape at the very end", `\u202`, `"\\u202"`),
		Entry("line breaks, escaped", "a\nb\tc\x00", `"a\nb\tc\u0000"`),
		Entry("a struct by its tags", paint{Colour: "red"}, `{"colour":"red","notes":null}`),
		Entry("negative zero, which Node writes as 0", math.Copysign(0, -1), `-0`),
		Entry("integers beyond 2^53, exact", int64(math.MaxInt64), `9223372036854775807`),
		Entry("large and small floats", []float64{1e21, 1e-7, 0.1, 100}, `[1e+21,1e-7,0.1,100]`),
		Entry("invalid UTF-8 as the replacement character", "a\xffb", `"a\ufffdb"`),
		Entry("JSON that is JSON already, byte for byte", json.RawMessage(`{ "a" : 1.0 , "b":"\u003c" }`), `{ "a" : 1.0 , "b":"\u003c" }`),
		Entry("no JSON at all where JSON could be", json.RawMessage(nil), `null`),
		Entry("a json.Number, digit for digit", json.Number("12345678901234567890.10"), `12345678901234567890.10`),
	)

	DescribeTable("is refused where Go can't write it", func(value any, hint string) {
		text, err := EncodeJSON(value)
		Expect(err).To(MatchError(ContainSubstring(hint)))
		Expect(text).To(BeEmpty())
	},
		Entry("not a number", math.NaN(), "NaN"),
		Entry("infinity within an object", map[string]float64{"x": math.Inf(1)}, "Inf"),
		Entry("a channel", make(chan int), "chan int"),
		Entry("raw text that isn't JSON", json.RawMessage(`{"a":`), `{\"a\":`),
		Entry("raw text with more behind it", json.RawMessage(`{}{}`), "not valid JSON"),
		Entry("raw text of no length", json.RawMessage{}, "not valid JSON"),
	)

	It("is read with exact numbers", func() {
		var value any
		Expect(DecodeJSON([]byte(`{"id":9007199254740993,"price":0.10}`), &value)).To(Succeed())
		Expect(value).To(Equal(map[string]any{"id": json.Number("9007199254740993"), "price": json.Number("0.10")}))
		var typed struct{ ID int64 }
		Expect(DecodeJSON([]byte(`{"id":9007199254740993}`), &typed)).To(Succeed())
		Expect(typed.ID).To(Equal(int64(9007199254740993)))
	})

	DescribeTable("is refused when something follows it", func(text string) {
		var value any
		Expect(DecodeJSON([]byte(text), &value)).NotTo(Succeed())
	},
		Entry("another value", `{} {}`),
		Entry("a brace too many", `{"a":1}}`),
		Entry("a bracket too many", `[1]]`),
		Entry("a comma", `1,`),
	)

	It("may be followed by white space", func() {
		var n int
		Expect(DecodeJSON([]byte(" 7 \n"), &n)).To(Succeed())
		Expect(n).To(Equal(7))
	})
})
