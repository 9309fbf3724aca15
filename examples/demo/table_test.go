package main

import (
	"bytes"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

var _ = Describe("The demo's table", func() {
	draw := func(columns int, colour bool) string {
		var out bytes.Buffer
		t := newTable(&out, columns, colour)
		t.begin()
		for _, r := range []row{
			{time: "0.01", queue: "orders", producer: "Node", worker: "Go", job: "1", name: "espresso", event: bullmq.EventActive},
			{time: "12.34", queue: "mails", producer: "Go", job: "r-1", name: "抹茶", event: bullmq.EventAdded, detail: "for 美咲 and 김민준 😀"},
			{time: "12.35", queue: "mails", event: bullmq.EventDrained, detail: strings.Repeat("長い", 60)},
			{time: "12.36", queue: "mails", producer: "Go", worker: "Node", job: "job-with-a-long-id", name: "a\u0301e\u0301", event: bullmq.EventRetriesExhausted},
		} {
			t.row(r)
		}
		t.end()
		return out.String()
	}

	DescribeTable("is as wide as the terminal on every line, within limits, for any characters:",
		func(terminal, expected int) {
			for line := range strings.Lines(draw(terminal, false)) {
				Expect(width(strings.TrimSuffix(line, "\n"))).To(Equal(expected), line)
			}
		},
		Entry("80 columns", 80, 80),
		Entry("120 columns", 120, 120),
		Entry("a very wide terminal", 300, widest),
		Entry("a very narrow terminal", 40, narrowest),
	)

	It("shows colours only on request, without other differences", func() {
		coloured, without := draw(80, true), draw(80, false)
		Expect(without).NotTo(ContainSubstring("\x1b"))
		Expect(coloured).To(ContainSubstring("\x1b[32mNode\x1b[0m"))
		bare := coloured
		for _, shade := range []tone{bold, faint, red, green, yellow, blue, magenta, cyan, "0"} {
			bare = strings.ReplaceAll(bare, "\x1b["+string(shade)+"m", "")
		}
		Expect(bare).To(Equal(without))
	})

	It("aligns numbers to the right and texts to the left", func() {
		Expect(draw(80, false)).To(ContainSubstring("│  0.01  orders  Node → Go    1  espresso  active "))
		Expect(draw(80, false)).To(ContainSubstring("│ 12.34  mails   Go →       r-1  抹茶      added "))
	})

	It("marks a truncated text with an ellipsis and never splits a wide character", func() {
		Expect(fit("長い話", 5, false)).To(Equal("長い…"))
		Expect(fit("長い話", 4, false)).To(Equal("長… "))
		Expect(fit("長い話", 6, false)).To(Equal("長い話"))
	})
})

var _ = Describe("The demo's plain lines", func() {
	It("contain everything that the table shows without truncation", func() {
		var out bytes.Buffer
		plain{&out}.row(row{time: "0.01", queue: "orders", producer: "Node", worker: "Go", job: "1", name: "espresso",
			event: bullmq.EventRetriesExhausted, detail: strings.Repeat("x", 200)})
		Expect(out.String()).To(Equal("0.01  orders  Node → Go  1  espresso  retries-exhausted  " + strings.Repeat("x", 200) + "\n"))
	})
})
