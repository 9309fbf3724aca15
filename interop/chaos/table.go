package chaos

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Row is the result of one fault.
type Row struct {
	Fault string
	Account
	InGo, InNode time.Duration // from the end of the fault to the first add and start
	Took         time.Duration
}

// columns are the columns of the table.
var columns = []struct {
	title string
	width int
	cell  func(Row) string
}{
	{"fault", -62, func(r Row) string { return r.Fault }},
	{"added", 8, func(r Row) string { return fmt.Sprint(r.Added) }},
	{"maybe", 6, func(r Row) string { return fmt.Sprint(r.Doubtful) }},
	{"came", 5, func(r Row) string { return fmt.Sprint(r.Arrived) }},
	{"refused", 8, func(r Row) string { return fmt.Sprint(r.Refused) }},
	{"completed", 10, func(r Row) string { return fmt.Sprint(r.Completed) }},
	{"failed", 7, func(r Row) string { return fmt.Sprint(r.Failed) }},
	{"left", 5, func(r Row) string { return fmt.Sprint(r.Left) }},
	{"lost", 5, func(r Row) string { return fmt.Sprint(r.Lost) }},
	{"doubled", 8, func(r Row) string { return fmt.Sprint(r.Doubled + r.Phantom) }},
	{"spoilt", 7, func(r Row) string { return fmt.Sprint(r.Misfailed) }},
	{"stalled", 8, func(r Row) string { return fmt.Sprint(r.Stalls) }},
	{"rerun", 10, func(r Row) string { return fmt.Sprintf("%d/%d", r.Reruns[Go], r.Reruns[Node]) }},
	{"Go back", 9, func(r Row) string { return seconds(r.InGo) }},
	{"Node back", 11, func(r Row) string { return seconds(r.InNode) }},
	{"took", 8, func(r Row) string { return seconds(r.Took) }},
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// Table prints rows as they arrive.
type Table struct {
	mu     sync.Mutex
	to     io.Writer
	headed bool
}

// NewTable returns a table that writes to a terminal or file.
func NewTable(to io.Writer) *Table { return &Table{to: to} }

// Add prints a row, and the header before the first one.
func (r *Table) Add(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.headed {
		r.headed = true
		r.line(func(i int) string { return columns[i].title })
	}
	r.line(func(i int) string { return columns[i].cell(row) })
}

// Note prints a line below the table.
func (r *Table) Note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.to, format+"\n", args...)
}

func (r *Table) line(cell func(int) string) {
	var line strings.Builder
	for i, column := range columns {
		text := cell(i)
		padding := strings.Repeat(" ", max(0, max(column.width, -column.width)-utf8.RuneCountInString(text)))
		if column.width < 0 {
			line.WriteString(text + padding)
		} else {
			line.WriteString(padding + text)
		}
	}
	fmt.Fprintln(r.to, strings.TrimRight(line.String(), " "))
}
