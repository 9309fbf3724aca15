package bullmqhttp

import (
	"encoding/json"
	"net/url"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = DescribeTable("A request is stored as encoding/json encodes it:", func(r Request) {
	want, err := marshal(r)
	Expect(err).NotTo(HaveOccurred())
	stored, err := r.encode()
	Expect(err).NotTo(HaveOccurred())
	Expect(string(stored)).To(Equal(string(want)))
},
	Entry("without optional fields", Request{Method: "GET", Path: "/"}),
	Entry("with all fields", Request{
		Method: "POST", Path: "/reports/7", Route: "report", Pattern: "POST /{kind}/{id}", Params: map[string]string{"kind": "reports", "id": "7"},
		Query: url.Values{"q": {"1", "2"}, "lang": {""}}, Headers: Header{"Accept": {"a", "b"}, "X-Request-Id": {"<1>"}},
		ContentType: `text/plain; charset="utf-8"`, Body: json.RawMessage(`"<a&b>"`), Encoding: EncodingText, BodyRef: "a/<b>", BodySize: 1 << 40, Owner: "Zoë\n\u2028",
		Carry: json.RawMessage(`{"a":[1,"<"]}`), Digest: "x-_",
	}),
	Entry("with texts that need escapes", Request{Method: "\"\\\t", Path: "/é\x7f</script>", Route: "ünï", Owner: "\u2029\x00"}),
)
