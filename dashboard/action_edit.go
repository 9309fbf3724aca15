package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/internal/jsontext"
)

// editAction replaces the data of a job.
var editAction = action{
	name: "edit", title: "Edit data", on: onJobs, single: true,
	fields: []field{
		{Name: "value", Label: "Data", Kind: "json", Required: true},
		{Name: "was", Kind: "hidden"},
	},
	values: currentData, plan: planEdit, do: editData,
}

// currentData returns the data of a job for the form, unless it is redacted.
func currentData(ctx context.Context, s *subject) (map[string]string, error) {
	job, err := s.one(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	if s.dashboard.o.Redact == nil { // otherwise the digest too would tell something about the data
		if len(job.Data) > maxBody/4 {
			return nil, badRequest{fmt.Errorf("the data has %s bytes, more than a form can hold", formatCount(len(job.Data)))}
		}
		values["value"], values["was"] = indented(job.Data), digest(job.Data)
	}
	return values, nil
}

func planEdit(ctx context.Context, s *subject) (string, error) {
	if _, err := s.one(ctx); err != nil {
		return "", err
	}
	if s.checked("sent") {
		if _, err := compactJSON(s.form.Get("value")); err != nil {
			return "", err
		}
	}
	plan, err := s.selected(ctx)
	plan = "Replace the data of " + plan
	if data, err := compactJSON(s.form.Get("value")); err == nil && s.checked("sent") {
		plan += fmt.Sprintf(" The new data has %s.", number(len(data), "byte"))
	}
	plan += " A handler that runs already keeps the data with which it has started."
	if s.dashboard.o.Redact != nil {
		plan += " The stored data is hidden. What you write replaces it whole."
	}
	return plan, err
}

func editData(ctx context.Context, s *subject) (string, error) {
	job, err := s.one(ctx)
	if err != nil {
		return "", err
	}
	was := s.form.Get("was")
	if was != "" && s.dashboard.o.Redact != nil { // its digest would tell whether a guess is right
		return "", badRequest{errors.New("the data of the job is hidden: leave out was")}
	}
	if was != "" && was != digest(job.Data) {
		return "", conflict{errors.New("the data has changed since you opened the form: open it again and repeat your changes")}
	}
	data, err := compactJSON(s.form.Get("value"))
	if err != nil {
		return "", err
	}
	if err := s.dashboard.checkType(job.Name, s.name, data); err != nil {
		return "", err
	}
	if err := job.UpdateData(ctx, data); err != nil {
		return "", err
	}
	return fmt.Sprintf("The job has %s of data.", number(len(data), "byte")), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}

// compactJSON returns JSON without spaces. The error names the line and the column.
func compactJSON(text string) (json.RawMessage, error) {
	var checked json.RawMessage
	err := json.Unmarshal([]byte(text), &checked) // unlike json.Compact, it tells the place of an error
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at := max(0, min(int(syntax.Offset)-1, len(text)))
		if strings.Contains(err.Error(), "unexpected end") {
			at = len(text)
		}
		line, column := place(text, at)
		return nil, badRequest{fmt.Errorf("this is not JSON, in line %d, column %d: %w", line, column, err)}
	case err != nil:
		return nil, badRequest{err}
	case !jsontext.Valid([]byte(text)):
		return nil, badRequest{fmt.Errorf("the JSON is not UTF-8, or is nested deeper than %d levels", jsontext.MaxDepth)}
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, checked)
	return compact.Bytes(), err
}

// place returns the line and the column of a byte, which count from 1.
func place(text string, at int) (line, column int) {
	before := text[:at]
	line = 1 + strings.Count(before, "\n")
	return line, 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}
