package parity

import (
	"fmt"
	"strings"
)

// Difference is one respect in which the sides aren't alike.
type Difference struct {
	Key       string // the Redis key, or empty for the answers
	Part      string // what of the key differs: "field processedOn", "member 3", …
	Reference string // what the reference has there
	Subject   string // what the subject has there
}

// absent stands for what a side doesn't have.
const absent = "(absent)"

func (d Difference) where() string {
	switch {
	case d.Key == "":
		return "answer"
	case d.Part == "":
		return d.Key
	}
	return d.Key + ", " + d.Part
}

// format writes the difference on three lines, the sides below each other.
func (d Difference) format(reference, subject string) string {
	width := max(len(reference), len(subject))
	return fmt.Sprintf("%s\n  %-*s  %s\n  %-*s  %s", d.where(),
		width+1, reference+":", shorten(d.Reference), width+1, subject+":", shorten(d.Subject))
}

// shorten keeps a value readable in a report.
func shorten(text string) string {
	const most = 600
	text = strings.ReplaceAll(text, "\n", "\\n")
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}
