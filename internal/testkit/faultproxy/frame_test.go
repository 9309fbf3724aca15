package faultproxy

import (
	"bufio"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("Reading a frame", func() {
	DescribeTable("returns one whole command or reply:", func(frame string) {
		from := bufio.NewReader(strings.NewReader(frame + "+next\r\n"))
		got, err := readFrame(from)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(got)).To(Equal(frame))
	},
		Entry("status", "+OK\r\n"),
		Entry("error", "-ERR no\r\n"),
		Entry("number", ":-7\r\n"),
		Entry("text", "$5\r\na\r\nbc\r\n"),
		Entry("empty text", "$0\r\n\r\n"),
		Entry("null text", "$-1\r\n"),
		Entry("null list", "*-1\r\n"),
		Entry("empty list", "*0\r\n"),
		Entry("lists in lists", "*2\r\n*2\r\n:1\r\n$1\r\n*\r\n*0\r\n"),
		Entry("RESP 3 null", "_\r\n"),
		Entry("RESP 3 number", ",1.5\r\n"),
		Entry("RESP 3 bool", "#t\r\n"),
		Entry("RESP 3 big number", "(12345678901234567890\r\n"),
		Entry("RESP 3 verbatim text", "=7\r\ntxt:a\r\n\r\n"),
		Entry("RESP 3 long error", "!3\r\nE\r\n\r\n"),
		Entry("RESP 3 map", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n"),
		Entry("RESP 3 set", "~1\r\n:1\r\n"),
		Entry("RESP 3 push", ">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n"),
		Entry("RESP 3 attributes and the reply", "|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n"),
		Entry("inline command", "PING\r\n"),
	)

	It("returns an incomplete frame as far as it was received", func() {
		got, err := readFrame(bufio.NewReader(strings.NewReader("*2\r\n:1\r\n$5\r\nab")))
		Expect(err).To(MatchError(io.ErrUnexpectedEOF))
		Expect(string(got)).To(Equal("*2\r\n:1\r\n$5\r\nab"))
	})

	It("rejects another protocol", func() {
		_, err := readFrame(bufio.NewReader(strings.NewReader("*a\r\n")))
		Expect(err).To(MatchError(ContainSubstring("isn't RESP")))
	})

	It("renders a command as it would be typed", func() {
		Expect(words([]byte(encode("EVALSHA", "5f8c", "1", "a\r\nb", "")))).To(Equal("EVALSHA 5f8c 1 a\r\nb "))
		Expect(words([]byte("PING now\r\n"))).To(Equal("PING now"))
	})
})
