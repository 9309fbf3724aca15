package main

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The benchmark of shards", func() {
	It("measures the Redis CPU of each number of shards, and their speed where it can be limited", func() {
		rows, err := measureShards([]int{1, 2}, 200, 100, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(rows).To(HaveLen(2))
		for i, row := range rows {
			Expect(row.shards).To(Equal(i + 1))
			Expect(row.add.redisCPU).To(BeNumerically(">", 0))
			Expect(row.process.redisCPU).To(BeNumerically(">", 0))
			if row.limited {
				Expect(row.adds).To(BeNumerically(">", 0))
				Expect(row.runs).To(BeNumerically(">", 0))
			}
		}
	})

	It("shows the rates relative to one shard", func() {
		rows := []shardRow{
			{shards: 1, add: cost{redisCPU: 8}, process: cost{redisCPU: 17}, limited: true, adds: 7000, runs: 2300},
			{shards: 10, add: cost{redisCPU: 8.5}, process: cost{redisCPU: 18}, limited: true, adds: 63000, runs: 23000},
		}
		Expect(shardsTable(rows)).To(And(
			ContainSubstring("processed per second at 6 % of a core"),
			ContainSubstring("| 10 | 8.50 µs | 18.0 µs | 63,000 /s | 9.00× | 23,000 /s | 10.0× |\n")))
		rows[0].limited, rows[1].limited = false, false
		Expect(shardsTable(rows)).To(ContainSubstring("| 10 | 8.50 µs | 18.0 µs |\n"))
	})
})
