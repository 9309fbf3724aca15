package main

import (
	"fmt"
	"strings"
)

const (
	submitTitle = "submit to 202, one at a time"
	clientsRows = "submit to 202, 100 clients"
	waitTitle   = "from the end of a job to the reply, 1,000 requests wait"
)

// httpFigures returns the rows of the table, with the bare handler as nodeName.
func httpFigures(rounds []httpRound) []figure {
	submit := func(title, unit string, less bool, of func(httpRound) [2]float64) figure {
		return figure{title: title, unit: unit, lessIsBetter: less, rounds: map[string][]float64{
			nodeName: each(rounds, func(r httpRound) float64 { return of(r)[0] }),
			ownName:  each(rounds, func(r httpRound) float64 { return of(r)[1] }),
		}}
	}
	wait := func(title string, of func(waited) float64) figure {
		return figure{title: title, unit: "ms", lessIsBetter: true, rounds: map[string][]float64{
			ownName: each(rounds, func(r httpRound) float64 { return of(r.waits) }),
		}}
	}
	return []figure{
		submit(submitTitle+", p50", "µs", true, func(r httpRound) [2]float64 { return [2]float64{r.one[0].p50, r.one[1].p50} }),
		submit(submitTitle+", p99", "µs", true, func(r httpRound) [2]float64 { return [2]float64{r.one[0].p99, r.one[1].p99} }),
		submit(clientsRows+", p50", "µs", true, func(r httpRound) [2]float64 { return [2]float64{r.many[0].p50, r.many[1].p50} }),
		submit(clientsRows+", p99", "µs", true, func(r httpRound) [2]float64 { return [2]float64{r.many[0].p99, r.many[1].p99} }),
		submit("requests per second, 100 clients", "/s", false, func(r httpRound) [2]float64 { return [2]float64{r.many[0].perSecond, r.many[1].perSecond} }),
		wait(waitTitle+", p50", func(w waited) float64 { return w.p50 }),
		wait(waitTitle+", p99", func(w waited) float64 { return w.p99 }),
		wait(waitTitle+", worst", func(w waited) float64 { return w.worst }),
		wait("1,000 jobs that end at the same time, until the last reply", func(w waited) float64 { return w.all }),
	}
}

// httpTable returns the figures in Markdown.
func httpTable(rounds []httpRound) string {
	var b strings.Builder
	b.WriteString("| | handler with `Queue.Add` | bullmqhttp | ratio |\n|---|--:|--:|--:|\n")
	for _, f := range httpFigures(rounds) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.title, f.text(nodeName), f.text(ownName), f.ratioText(ownName))
	}
	return b.String()
}

// httpGoals returns the goals for HTTP requests as jobs.
func httpGoals(rounds []httpRound) []goal {
	if len(rounds) == 0 {
		return nil
	}
	var goals []goal
	for _, f := range httpFigures(rounds) {
		switch f.title {
		case submitTitle + ", p50", submitTitle + ", p99":
			ratio, known := f.ratio(ownName)
			goals = append(goals, goal{f.title, " × a handler with Queue.Add", ratio, known, 0, 1.3})
		case waitTitle + ", p50", waitTitle + ", p99", waitTitle + ", worst":
			millis, known := f.of(ownName)
			goals = append(goals, goal{f.title, " ms", millis, known, 0, 5})
		}
	}
	return goals
}
