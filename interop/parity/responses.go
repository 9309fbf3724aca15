package parity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// unordered lists the operations whose responses contain lists read from sets. The order of these lists is not
// compared.
var unordered = map[string]bool{
	"addFlow":          true, // children, which the Node library adds concurrently
	"addFlowBulk":      true,
	"flowTree":         true,
	"dependencies":     true,
	"dependenciesPage": true,
	"children":         true,
	"clean":            true,
	"stalled":          true,
}

// trees are the operations that return {id, children}. In their responses an empty list of children equals a
// missing one.
var trees = map[string]bool{"addFlow": true, "addFlowBulk": true, "flowTree": true}

// CompareResponses returns the difference between two responses to an operation, or nil. Errors are equal if they
// have the same code or none. The note then contains texts that differ.
func CompareResponses(op string, reference, subject Response, present Present) (difference *Difference, note string) {
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
			note = fmt.Sprintf("error texts differ: %q and %q", reference.Error.Message, subject.Error.Message)
		}
		return nil, note
	}
	first, err1 := decodeJSON(string(reference.Result))
	second, err2 := decodeJSON(string(subject.Result))
	if err1 != nil || err2 != nil {
		return differ(), ""
	}
	rules := responseRules{present: present, unordered: unordered[op], tree: trees[op]}
	if !rules.same(first, second) {
		return differ(), ""
	}
	return nil, ""
}

// String returns the response as shown in reports.
func (r Response) String() string {
	if r.Error != nil {
		return r.Error.String()
	}
	return compactJSON(r.Result)
}

func sameCode(a, b *int) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

type responseRules struct {
	present   Present
	unordered bool
	tree      bool
}

// same compares two values of responses. Fields of a job that hold user data are compared exactly.
func (r responseRules) same(a, b any) bool {
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

func (r responseRules) sameObject(first, second map[string]any) bool {
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

func (r responseRules) withoutEmptyChildren(object map[string]any) map[string]any {
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

// canonical returns a text that is equal for equal values: json.Marshal sorts the names of objects.
func canonical(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
