package bullmq_test

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("A route", func() {
	DescribeTable("has the name of its requirements:", func(target bullmq.Target, want string) {
		Expect(target.Route("orders")).To(Equal(want))
		queueName, parsed, ok := bullmq.ParseRoute(want)
		if want == "orders" {
			Expect(ok).To(BeFalse())
			return
		}
		Expect(ok).To(BeTrue())
		Expect(queueName).To(Equal("orders"))
		Expect(parsed.Route("orders")).To(Equal(want))
	},
		Entry("none", bullmq.Target{}, "orders"),
		Entry("none of any", bullmq.Target{Mode: bullmq.MatchAny}, "orders"),
		Entry("a capability", bullmq.Target{Capabilities: []string{"gpu"}}, "orders@gpu"),
		Entry("one of any", bullmq.Target{Capabilities: []string{"gpu"}, Mode: bullmq.MatchAny}, "orders@gpu"),
		Entry("all, sorted and once", bullmq.Target{Capabilities: []string{"gpu", "AVX", "gpu"}, Stack: "Node", Region: "us-east"}, "orders@avx+gpu+region=us-east+stack=node"),
		Entry("any", bullmq.Target{Capabilities: []string{"gpu", "tpu"}, Mode: bullmq.MatchAny}, "orders@gpu|tpu"),
		Entry("a server, whatever else is set", bullmq.Target{Server: "W-1", Capabilities: []string{"gpu"}, Mode: bullmq.MatchAny}, "orders@server=w-1"),
		Entry("dots and underscores", bullmq.Target{Capabilities: []string{"cuda_12.4"}}, "orders@cuda_12.4"),
	)

	DescribeTable("does not exist for a target with", func(target bullmq.Target, hint string) {
		_, err := target.Route("orders")
		Expect(err).To(MatchError(ContainSubstring(hint)))
	},
		Entry("a space", bullmq.Target{Capabilities: []string{"a b"}}, "character"),
		Entry("a letter that only Unicode makes an ASCII one", bullmq.Target{Region: "\u212Aiel"}, "character"),
		Entry("a separator", bullmq.Target{Stack: "go+node"}, "character"),
		Entry("an equals sign", bullmq.Target{Capabilities: []string{"stack=go"}}, "character"),
		Entry("an empty capability", bullmq.Target{Capabilities: []string{""}}, "empty"),
		Entry("an unknown mode", bullmq.Target{Mode: "some"}, "mode"),
		Entry("too many requirements", bullmq.Target{Capabilities: []string{strings.Repeat("a", 100), strings.Repeat("b", 100)}}, "200"),
		Entry("nothing but the name of the SDK's keys", bullmq.Target{Capabilities: []string{"X"}}, "rename"),
	)

	DescribeTable("is not the queue", func(name string) {
		_, _, ok := bullmq.ParseRoute(name)
		Expect(ok).To(BeFalse())
	},
		Entry("without requirements", "orders"), Entry("without a name", "@gpu"), Entry("in another order", "orders@gpu+avx"),
		Entry("in upper case", "orders@GPU"), Entry("with both separators", "orders@a|b+c"), Entry("with nothing between separators", "orders@a++b"),
		Entry("of the SDK's keys", "orders@x"), Entry("with a server and more", "orders@gpu+server=a"), Entry("with two regions", "orders@region=a+region=b"),
	)

	DescribeTable("is served by a worker of region us-east with gpu and avx", func(target bullmq.Target, serves bool) {
		Expect(bullmq.Serves(bullmq.Target{Server: "W1", Stack: "go", Region: "US-east", Capabilities: []string{"gpu", "avx"}}, target)).To(Equal(serves))
	},
		Entry("without requirements", bullmq.Target{}, true),
		Entry("with a capability that it has", bullmq.Target{Capabilities: []string{"GPU"}}, true),
		Entry("with a capability that it lacks", bullmq.Target{Capabilities: []string{"tpu"}}, false),
		Entry("with all that it has", bullmq.Target{Capabilities: []string{"gpu", "avx"}, Stack: "go", Region: "us-east"}, true),
		Entry("with all but one that it has", bullmq.Target{Capabilities: []string{"gpu"}, Region: "eu-west"}, false),
		Entry("with one of any that it has", bullmq.Target{Capabilities: []string{"tpu"}, Region: "us-east", Mode: bullmq.MatchAny}, true),
		Entry("with none of any that it has", bullmq.Target{Capabilities: []string{"tpu"}, Region: "eu-west", Mode: bullmq.MatchAny}, false),
		Entry("with its name", bullmq.Target{Server: "w1", Capabilities: []string{"tpu"}}, true),
		Entry("with the name of another one", bullmq.Target{Server: "w2", Capabilities: []string{"gpu"}}, false),
		Entry("with a capability of the name of its region", bullmq.Target{Capabilities: []string{"us-east"}}, false),
	)
})

var _ = Describe("The option target", func() {
	encode := func(options bullmq.JobOptions) string {
		text, err := json.Marshal(options)
		Expect(err).NotTo(HaveOccurred())
		return string(text)
	}

	DescribeTable("is stored without what is not set:", func(target *bullmq.Target, want string) {
		Expect(encode(bullmq.JobOptions{Target: target})).To(MatchJSON(want))
	},
		Entry("nothing", &bullmq.Target{}, `{"attempts":0}`),
		Entry("all", &bullmq.Target{Capabilities: []string{"gpu"}, Stack: "go", Region: "eu", Server: "w", Mode: bullmq.MatchAny},
			`{"attempts":0,"target":{"capabilities":["gpu"],"stack":"go","region":"eu","server":"w","mode":"any"}}`),
		Entry("a region", &bullmq.Target{Region: "eu"}, `{"attempts":0,"target":{"region":"eu"}}`),
	)

	DescribeTable("of another client is kept when it is written again:", func(target string) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(`{"attempts":0,"target":`+target+`}`), &options)).To(Succeed())
		Expect(encode(options)).To(MatchJSON(`{"attempts":0,"target":` + target + `}`))
	},
		Entry("of ours", `{"capabilities":["gpu"],"mode":"all"}`), Entry("with other members", `{"region":"eu","note":{"a":1}}`),
		Entry("with a wrong type", `{"region":["eu"],"stack":"go"}`), Entry("of another meaning", `{"url":"https://example.org"}`),
		Entry("a text", `"gpu"`), Entry("a number", `7`),
	)

	DescribeTable("of another client is refused if it states requirements that can't be read:", func(target, hint string) {
		var options bullmq.JobOptions
		Expect(json.Unmarshal([]byte(`{"target":`+target+`}`), &options)).To(Succeed())
		_, err := options.Target.Route("orders")
		Expect(err).To(MatchError(ContainSubstring(hint)))
	},
		Entry("a text as capabilities", `{"capabilities":"gpu"}`, "capabilities"),
		Entry("a number as capability", `{"capabilities":[1]}`, "capabilities"),
		Entry("a list as region", `{"region":["eu"]}`, "region"),
	)
})
