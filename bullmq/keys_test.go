package bullmq

import (
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

var _ = Describe("The layout of a queue in Redis", func() {
	It("has every key that any script declares", func() {
		k, err := newKeys("", "orders")
		Expect(err).NotTo(HaveOccurred())
		declared := scripts.Suffixes()
		Expect(len(declared)).To(BeNumerically(">", 20))
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			for _, suffix := range declared[name] {
				Expect(func() { Expect(k.named(suffix)).To(Equal("bull:orders:" + suffix)) }).NotTo(Panic(), "%s declares %s", name, suffix)
			}
		}
	})

	It("has no key that no script or call needs", func() {
		used := map[string]bool{}
		for _, suffixes := range scripts.Suffixes() {
			for _, suffix := range suffixes {
				used[suffix] = true
			}
		}
		// The scripts build the key of the metrics' rows from that of their hash.
		for _, built := range []string{"metrics:completed:data", "metrics:failed:data"} {
			used[built] = true
		}
		for _, key := range layout {
			Expect(used).To(HaveKey(key.suffix))
		}
	})

	It("states the type and the meaning of each key once", func() {
		seen := map[string]bool{}
		for _, key := range layout {
			Expect(seen).NotTo(HaveKey(key.suffix))
			seen[key.suffix] = true
			Expect(key.kind).To(BeElementOf("string", "hash", "list", "set", "zset", "stream"), key.suffix)
			Expect(key.meaning).NotTo(BeEmpty(), key.suffix)
		}
		for _, family := range keyFamilies {
			Expect(family.kind).To(BeElementOf("string", "hash", "list", "set", "zset"), family.start+family.end)
			Expect(family.meaning).NotTo(BeEmpty(), family.start+family.end)
		}
	})

	It("refuses to build an unknown key", func() {
		k, err := newKeys("", "orders")
		Expect(err).NotTo(HaveOccurred())
		Expect(func() { k.named("wiat") }).To(PanicWith(ContainSubstring("wiat")))
	})

	It("starts with the prefix, which defaults to bull", func() {
		k, err := newKeys("shop:eu", "orders")
		Expect(err).NotTo(HaveOccurred())
		Expect(k.named("wait")).To(Equal("shop:eu:orders:wait"))
		Expect(k.jobKey("7")).To(Equal("shop:eu:orders:7"))
	})

	DescribeTable("names connections as BullMQ looks for them:", func(queue, suffix, want string) {
		k, err := newKeys("", queue)
		Expect(err).NotTo(HaveOccurred())
		Expect(k.clientName(suffix)).To(Equal(want))
	},
		Entry("an unnamed worker", "orders", "", "bull:b3JkZXJz"),
		Entry("a named worker", "orders", ":w:blue", "bull:b3JkZXJz:w:blue"),
		Entry("an event reader", "é😀", ":qe", "bull:w6nwn5iA:qe"),
	)

	DescribeTable("knows whether all keys share a slot of a cluster with", func(prefix, queue string, want bool) {
		k, err := newKeys(prefix, queue)
		Expect(err).NotTo(HaveOccurred())
		Expect(wire.HashTag(k.base) != "").To(Equal(want))
	},
		Entry("no braces", "bull", "orders", false),
		Entry("braces in the prefix", "{bull}", "orders", true),
		Entry("braces in the queue's name", "bull", "{orders}", true),
		Entry("braces around a part of the name", "bull", "a{b}c", true),
		Entry("an empty first pair of braces", "bull", "{}orders", false),
		Entry("an empty pair before a full one, which Redis ignores", "{}", "{orders}", false),
		Entry("a brace that is never closed", "bull", "{orders", false),
		Entry("a brace that is closed before it opens", "bull", "}orders{", false),
	)
})
