package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// isTerminal reports whether a file is a terminal.
func isTerminal(file any) bool {
	f, ok := file.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// asTable reports whether the output is a table.
func (c *client) asTable(command *cobra.Command) bool {
	return c.table || !c.json && isTerminal(command.OutOrStdout())
}

// list writes values, each as a line of JSON or as the row of a table.
func list[T any](c *client, command *cobra.Command, values []T, head []string, row func(T) []string) error {
	out := command.OutOrStdout()
	if !c.asTable(command) {
		for _, value := range values {
			if err := writeJSON(out, value); err != nil {
				return err
			}
		}
		return nil
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, strings.Join(head, "\t"))
	for _, value := range values {
		cells := row(value)
		for i := range cells {
			cells[i] = printable(cells[i], longestCell)
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush() // to memory
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

const longestCell = 60 // characters

func writeJSON(out io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("bullmq: write the output: %w", err)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// quoted returns a text as JSON, without escaping <, > and &.
func quoted(text string) []byte {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a text can be encoded
	return bytes.TrimSpace(quoted.Bytes())
}

// writeDocument writes JSON in one line, or in several lines for a terminal.
func writeDocument(out io.Writer, document []byte, terminal bool) error {
	var text bytes.Buffer
	if !terminal {
		if err := json.Compact(&text, document); err != nil {
			return fmt.Errorf("bullmq: write the output: %w", err)
		}
		_, err := fmt.Fprintln(out, text.String())
		return err
	}
	if err := json.Indent(&text, document, "", "  "); err != nil {
		return fmt.Errorf("bullmq: write the output: %w", err)
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, "\n")
		if _, err := fmt.Fprintln(out, printable(line, utf8.RuneCountInString(line))); err != nil {
			return err
		}
	}
	return nil
}

// printable returns a text that can't control a terminal, with at most some characters.
func printable(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError:
			return '\uFFFD'
		}
		return r
	}, text)
	if utf8.RuneCountInString(text) > most {
		return string([]rune(text)[:most-1]) + "…"
	}
	return text
}

// errorText returns the text of an error, which may contain names and texts from Redis, in
// printable lines.
func errorText(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i := range lines {
		if i == 2*longestList {
			return strings.Join(append(lines[:i], fmt.Sprintf("and %d more lines", len(lines)-i)), "\n")
		}
		lines[i] = printable(lines[i], 1000)
	}
	return strings.Join(lines, "\n")
}

// ago returns how long ago something was; "" for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(time.Since(t))
}

// short returns a duration in at most three digits or so.
func short(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 24*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.1fd", d.Hours()/24)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](values map[string]V) []string { return slices.Sorted(maps.Keys(values)) }
