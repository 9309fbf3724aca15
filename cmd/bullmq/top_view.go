package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// The styles, as codes of SGR.
const (
	styleTitle    = "1"
	styleDim      = "2"
	styleSelected = "7"
	styleBad      = "31"
	styleWarn     = "33"
	styleGood     = "32"
)

const (
	topNameLeast = 12 // columns of the name of a queue
	topNameMost  = 48
)

// styled returns a text in a style, unless there are to be no colors.
func (m *topModel) styled(style, text string) string {
	if !m.colors || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[m"
}

// shown returns a text of Redis, without what controls a terminal.
func shown(text string) string { return printable(text, 200) }

// View implements [tea.Model].
func (m *topModel) View() tea.View {
	var lines []string
	switch {
	case m.help:
		lines = m.helpLines()
	case m.queue != "":
		lines = m.detailLines()
	default:
		lines = m.tableLines()
	}
	most := max(1, m.height-1)
	lines = lines[:min(most, len(lines))]
	for len(lines) < most {
		lines = append(lines, "")
	}
	lines = append(lines, m.footer())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	view := tea.NewView(strings.Join(lines[max(0, len(lines)-m.height):], "\n"))
	view.AltScreen = true
	return view
}

// head returns the first lines.
func (m *topModel) head() []string {
	var ready, active int
	for _, row := range m.data.rows {
		ready += row.ready
		active += row.Counts[bullmq.StateActive]
	}
	line := fmt.Sprintf("%s  %d queues, %s ready, %s active", m.styled(styleTitle, "bullmq top"), len(m.data.rows), number(ready), number(active))
	if m.data.at.IsZero() {
		line = m.styled(styleTitle, "bullmq top") + "  reading…"
	} else {
		line += "  " + m.styled(styleDim, m.data.at.Format(time.TimeOnly)+"  prefix "+shown(m.c.prefix))
	}
	if m.paused {
		line += "  " + m.styled(styleWarn, "refresh is paused")
	}
	lines := []string{line}
	if m.err != nil {
		lines = append(lines, m.styled(styleBad, "! "+printable(m.err.Error(), 500)))
	}
	return lines
}

func (m *topModel) footer() string {
	switch {
	case m.editing:
		return "filter: " + shown(m.filter) + "█"
	case m.help:
		return m.styled(styleDim, "? back  q quit")
	case m.queue != "":
		return m.styled(styleDim, "esc back  ↑↓ scroll  p pause  q quit")
	}
	text := "enter show  s sort  r reverse  / filter  p pause  ? help  q quit"
	if m.filter != "" {
		text = "filter " + shown(m.filter) + " (esc clears)  " + text
	}
	return m.styled(styleDim, text)
}

func (m *topModel) helpLines() []string {
	return []string{
		m.styled(styleTitle, "bullmq top"), "",
		"↑ ↓ j k      select a queue        PgUp PgDn Home End",
		"enter        show its workers and running jobs; esc goes back",
		"s S          sort by the next or the previous column; r reverses",
		"/            filter by a text in the name; esc clears",
		"p            pause and resume the refresh",
		"q            quit", "",
		"in/s, out/s  jobs that were added, and that completed, failed or were removed,",
		"             in the last 10 seconds",
		"age          of the oldest job that is ready",
		"fail%        of the jobs that ended in the last hour, if workers store metrics",
	}
}

// page returns how many rows of the table are shown.
func (m *topModel) page() int { return max(1, m.height-2-len(m.head())) }

// move selects another row, or scrolls the details.
func (m *topModel) move(by int) {
	if m.queue != "" {
		m.detailFrom = max(0, min(m.detailFrom+by, len(m.detailBody())-1))
		return
	}
	if len(m.rows) > 0 {
		m.selected = m.rows[max(0, min(m.index()+by, len(m.rows)-1))].Name
	}
}

// tableLines returns the table of the queues.
func (m *topModel) tableLines() []string {
	lines := m.head()
	index, page := m.index(), m.page()
	m.top = max(0, min(m.top, len(m.rows)-page, index), index-page+1)
	visible := m.rows[m.top:min(len(m.rows), m.top+page)]
	columns, widths := m.fit(visible)
	head := "  "
	for i, c := range columns {
		name := strings.ToUpper(topColumns[c].name)
		if c == m.column {
			name += map[bool]string{true: "↑", false: "↓"}[m.ascending]
		}
		head += m.pad(name, widths[i], topColumns[c].text) + "  "
	}
	lines = append(lines, m.styled(styleTitle, strings.TrimRight(head, " ")))
	for _, row := range visible {
		lines = append(lines, m.tableLine(row, columns, widths))
	}
	if len(m.rows) == 0 && !m.data.at.IsZero() {
		lines = append(lines, "  "+map[bool]string{true: "no queues with the prefix " + shown(m.c.prefix), false: "no queue matches the filter"}[m.filter == ""])
	}
	return lines
}

func (m *topModel) tableLine(row topRow, columns, widths []int) string {
	selected := row.Name == m.selected
	line := map[bool]string{true: "> ", false: "  "}[selected]
	for i, c := range columns {
		cell := m.pad(shown(topColumns[c].cell(row)), widths[i], topColumns[c].text)
		if style := row.style(topColumns[c].name); style != "" && !selected {
			cell = m.styled(style, cell)
		}
		line += cell + "  "
	}
	remark := row.remark()
	if selected {
		return m.styled(styleSelected, line+remark)
	}
	return line + m.styled(styleWarn, remark)
}

// style returns the style of a cell, "" for none.
func (r topRow) style(column string) string {
	switch {
	case column == "workers" && r.workers == 0 && r.ready > 0 && !r.Paused && !r.DeadLetters:
		return styleBad
	case column == "fail%" && r.failures >= 0.1:
		return styleBad
	case column == "failed" && r.Counts[bullmq.StateFailed] > 0:
		return styleWarn
	case column == "active" && r.Counts[bullmq.StateActive] > 0:
		return styleGood
	}
	return ""
}

// remark tells what else there is to know about a queue.
func (r topRow) remark() string {
	var remarks []string
	switch {
	case r.Err != nil:
		return "can't be read: " + printable(r.Err.Error(), 100)
	case r.Paused:
		remarks = append(remarks, "paused")
	case r.DeadLetters:
		remarks = append(remarks, "dead letters")
	case r.workers == 0 && r.ready > 0:
		remarks = append(remarks, "no workers")
	}
	if r.LimitedFor > 0 {
		remarks = append(remarks, "limited")
	}
	return strings.Join(remarks, ", ")
}

// fit selects the columns that have room, and their widths.
func (m *topModel) fit(rows []topRow) (columns, widths []int) {
	all := make([]int, len(topColumns))
	for c, column := range topColumns {
		columns = append(columns, c)
		all[c] = len(column.name) + 1
		for _, row := range rows {
			all[c] = max(all[c], ansi.StringWidth(shown(column.cell(row))))
		}
	}
	all[0] = min(all[0], topNameMost)
	remarks := 0
	for _, row := range rows {
		remarks = max(remarks, min(12, ansi.StringWidth(row.remark())))
	}
	for {
		total := 2 + remarks
		for _, c := range columns {
			total += all[c] + 2
		}
		if total <= m.width {
			break
		}
		if spare := all[0] - topNameLeast; spare > 0 && len(columns) <= 6 {
			all[0] -= min(spare, total-m.width)
			if total-spare <= m.width {
				break
			}
		}
		if len(columns) <= 2 {
			break
		}
		least := slices.MinFunc(columns, func(a, b int) int { return topColumns[a].keep - topColumns[b].keep })
		columns = slices.DeleteFunc(columns, func(c int) bool { return c == least })
	}
	for _, c := range columns {
		widths = append(widths, all[c])
	}
	return columns, widths
}

// pad cuts a text or fills it up to a width.
func (m *topModel) pad(text string, width int, left bool) string {
	text = ansi.Truncate(text, width, "…")
	spaces := strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
	if left {
		return text + spaces
	}
	return spaces + text
}

// detailLines returns the workers and the running jobs of a queue.
func (m *topModel) detailLines() []string {
	lines := m.head()
	body := m.detailBody()
	m.detailFrom = max(0, min(m.detailFrom, len(body)-1))
	return append(lines, body[m.detailFrom:]...)
}

func (m *topModel) detailBody() []string {
	lines := []string{"", m.styled(styleTitle, "queue "+shown(m.queue))}
	for _, row := range m.data.rows {
		if row.Name != m.queue {
			continue
		}
		line := ""
		for _, column := range topColumns[1:] {
			if cell := column.cell(row); cell != "" {
				line += column.name + " " + cell + "   "
			}
		}
		lines = append(lines, strings.TrimSpace(line))
		if remark := row.remark(); remark != "" {
			lines = append(lines, m.styled(styleWarn, remark))
		}
		if row.Concurrency > 0 || row.Stopped {
			lines = append(lines, fmt.Sprintf("global concurrency %d", row.Concurrency))
		}
		if row.LimitMax > 0 {
			lines = append(lines, fmt.Sprintf("rate limit %d in %s", row.LimitMax, short(row.LimitDuration)))
		}
	}
	d := m.data.detail
	if d == nil || d.queue != m.queue {
		return append(lines, "", "reading…")
	}
	lines = append(lines, "", m.styled(styleTitle, workers(len(d.workers))))
	for _, w := range d.workers {
		state := ""
		switch {
		case w.Stopping:
			state = "  stopping"
		case w.Paused:
			state = "  paused"
		}
		if w.IsRegistered() {
			lines = append(lines, fmt.Sprintf("  %s  %s process %d  %d of %d jobs  since %s%s", m.pad(shown(w.Name), 24, true), shown(w.Host), w.PID, w.Running, w.Concurrency, ago(w.Started), state))
		} else {
			lines = append(lines, fmt.Sprintf("  %s  known by its connection only", m.pad(shown(w.Name), 24, true)))
		}
	}
	lines = append(lines, "", m.styled(styleTitle, count(len(d.running), "running job", "running jobs")))
	for _, job := range d.running {
		lines = append(lines, fmt.Sprintf("  %s  %s  %s  attempt %d  %s  %s", m.pad(shown(job.ID), 14, true), m.pad(shown(job.Name), 24, true),
			m.pad(ago(job.ProcessedOn), 8, false), job.AttemptsMade+1, shown(job.ProcessedBy), shown(string(job.Progress))))
	}
	return lines
}

// number returns a count in few characters.
func number(n int) string {
	switch {
	case n >= 10_000_000:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 100_000:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}

func rate(perSecond float64) string {
	switch {
	case perSecond < 0:
		return "–"
	case perSecond >= 100:
		return number(int(math.Round(perSecond)))
	}
	return strconv.FormatFloat(perSecond, 'f', 1, 64)
}

func percent(ratio float64) string {
	if ratio < 0 {
		return "–"
	}
	return strconv.FormatFloat(100*ratio, 'f', 1, 64)
}
