package parity

import (
	"fmt"
	"strings"
)

// Difference is one difference between the reference and the subject.
type Difference struct {
	Key       string // the Redis key, or empty for the responses
	Part      string // the part of the key that differs: "field processedOn", "member 3", …
	Reference string // the reference's value
	Subject   string // the subject's value
}

// absent is shown for a missing value.
const absent = "(absent)"

func (d Difference) where() string {
	switch {
	case d.Key == "":
		return "response"
	case d.Part == "":
		return d.Key
	}
	return d.Key + ", " + d.Part
}

// format returns the difference on three lines.
func (d Difference) format(reference, subject string) string {
	width := max(len(reference), len(subject))
	return fmt.Sprintf("%s\n  %-*s  %s\n  %-*s  %s", d.where(),
		width+1, reference+":", shorten(d.Reference), width+1, subject+":", shorten(d.Subject))
}

// shorten limits the length of a value in a report.
func shorten(text string) string {
	const maxLength = 600
	text = strings.ReplaceAll(text, "\n", "\\n")
	if len(text) <= maxLength {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLength], ""), len(text))
}
