package parity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// unordered are the operations whose answers hold lists that come from sets: where one stands in such a
// list says nothing.
var unordered = map[string]bool{
	"addFlow":          true, // children, which the Node library adds side by side
	"addFlowBulk":      true,
	"flowTree":         true,
	"dependencies":     true,
	"dependenciesPage": true,
	"children":         true,
	"clean":            true,
	"stalled":          true,
}

// trees are the operations that answer {id, children}, where no children and none mentioned are the same.
var trees = map[string]bool{"addFlow": true, "addFlowBulk": true, "flowTree": true}

// CompareAnswers tells what differs between two answers to an operation. Errors are alike when they
// have the same code, or both none: the note then says where their wording differs.
func CompareAnswers(op string, reference, subject Answer, present Present) (difference *Difference, note string) {
	differ := func() *Difference {
		return &Difference{Reference: reference.String(), Subject: subject.String()}
	}
	switch {
	case (reference.Error == nil) != (subject.Error == nil):
		return differ(), ""
	case reference.Error != nil:
		if !sameCode(reference.Error.Code, subject.Error.Code) {
			return differ(), ""
		}
		if reference.Error.Message != subject.Error.Message {
			note = fmt.Sprintf("errors are worded differently: %q and %q", reference.Error.Message, subject.Error.Message)
		}
		return nil, note
	}
	first, err1 := decodeJSON(string(reference.Result))
	second, err2 := decodeJSON(string(subject.Result))
	if err1 != nil || err2 != nil {
		return differ(), ""
	}
	rules := answerRules{present: present, unordered: unordered[op], tree: trees[op]}
	if !rules.same(first, second) {
		return differ(), ""
	}
	return nil, ""
}

// String is the answer as a report shows it.
func (a Answer) String() string {
	if a.Error != nil {
		return a.Error.String()
	}
	return compactJSON(a.Result)
}

func sameCode(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

type answerRules struct {
	present   Present
	unordered bool
	tree      bool
}

// same compares two values of answers. Fields of a job that its user gave are compared exactly.
func (r answerRules) same(a, b any) bool {
	switch first := a.(type) {
	case map[string]any:
		second, ok := b.(map[string]any)
		return ok && r.sameObject(r.withoutEmptyChildren(first), r.withoutEmptyChildren(second))
	case []any:
		second, ok := b.([]any)
		if !ok || len(first) != len(second) {
			return false
		}
		if r.unordered {
			first, second = sortedByText(first), sortedByText(second)
		}
		return slices.EqualFunc(first, second, r.same)
	}
	return sameValue(a, b, r.present.sameNumber)
}

func (r answerRules) sameObject(first, second map[string]any) bool {
	if len(first) != len(second) {
		return false
	}
	for name, value := range first {
		other, ok := second[name]
		if !ok {
			return false
		}
		if jsonFields[name].userGiven {
			if !sameValue(value, other, exactly) {
				return false
			}
		} else if !r.same(value, other) {
			return false
		}
	}
	return true
}

func (r answerRules) withoutEmptyChildren(object map[string]any) map[string]any {
	children, ok := object["children"].([]any)
	if !r.tree || !ok || len(children) > 0 {
		return object
	}
	without := map[string]any{}
	for name, value := range object {
		if name != "children" {
			without[name] = value
		}
	}
	return without
}

func sortedByText(values []any) []any {
	return slices.SortedFunc(slices.Values(values), func(a, b any) int {
		return cmp.Compare(canonical(a), canonical(b))
	})
}

// canonical is a text that is the same for equal values: json.Marshal sorts the names of objects.
func canonical(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
