package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// jsonFields are the fields of hashes and stream entries that hold JSON, which is compared as values. In user
// data numbers are never treated as times.
var jsonFields = map[string]struct{ userGiven bool }{
	"opts":        {},
	"parent":      {},
	"data":        {userGiven: true},
	"returnvalue": {userGiven: true},
	"progress":    {userGiven: true},
}

// processedSuffix is the suffix of the key that holds the return values of a parent's children, as JSON.
const processedSuffix = ":processed"

// Compare returns the differences between two keyspaces in the order of the keys.
func Compare(reference, subject Keyspace, present Present) []Difference {
	names := map[string]struct{}{}
	for name := range reference {
		names[name] = struct{}{}
	}
	for name := range subject {
		names[name] = struct{}{}
	}
	var found []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		first, inReference := reference[name]
		second, inSubject := subject[name]
		switch {
		case !inReference:
			found = append(found, Difference{Key: name, Reference: absent, Subject: second.String()})
		case !inSubject:
			found = append(found, Difference{Key: name, Reference: first.String(), Subject: absent})
		default:
			c := comparison{key: name, present: present}
			c.values(first, second)
			found = append(found, c.found...)
		}
	}
	return found
}

// comparison collects the differences of one key.
type comparison struct {
	key     string
	present Present
	found   []Difference
}

func (c *comparison) differ(part, reference, subject string) {
	c.found = append(c.found, Difference{c.key, part, reference, subject})
}

func (c *comparison) values(first, second Value) {
	if first.Type != second.Type {
		c.differ("type", first.Type, second.Type)
		return
	}
	switch first.Type {
	case "string":
		if !c.present.sameText(first.Text, second.Text) {
			c.differ("", first.Text, second.Text)
		}
	case "list":
		c.ordered("element", first.List, second.List)
	case "set":
		c.ordered("member", first.Members, second.Members)
	case "zset":
		c.scored(first.Scored, second.Scored)
	case "hash":
		c.hash(first.Fields, second.Fields)
	case "stream":
		c.stream(first.Entries, second.Entries)
	}
	c.lives(first.Life, second.Life)
}

func (c *comparison) ordered(what string, first, second []string) {
	if !slices.Equal(first, second) {
		c.differ(what+"s", quoteAll(first), quoteAll(second))
	}
}

func (c *comparison) scored(first, second []ScoredMember) {
	scores := make(map[string]float64, len(second))
	for _, member := range second {
		scores[member.Member] = member.Score
	}
	same := len(first) == len(second)
	for _, member := range first {
		score, ok := scores[member.Member]
		same = same && ok && c.present.sameScore(member.Score, score)
	}
	if !same || !slices.Equal(c.fixed(first), c.fixed(second)) {
		c.differ("members and scores", formatScored(first), formatScored(second))
	}
}

// fixed returns the members whose position does not depend on the time of the run.
func (c *comparison) fixed(members []ScoredMember) []string {
	var names []string
	for _, member := range members {
		if !c.present.isPresentScore(member.Score) {
			names = append(names, member.Member)
		}
	}
	return names
}

func (c *comparison) hash(first, second map[string]string) {
	names := map[string]struct{}{}
	for name := range first {
		names[name] = struct{}{}
	}
	for name := range second {
		names[name] = struct{}{}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		reference, inFirst := first[name]
		subject, inSecond := second[name]
		switch {
		case !inFirst:
			c.differ("field "+name, absent, subject)
		case !inSecond:
			c.differ("field "+name, reference, absent)
		case !c.sameField(name, reference, subject):
			c.differ("field "+name, reference, subject)
		}
	}
}

func (c *comparison) sameField(name, first, second string) bool {
	switch {
	case name == "version" && strings.HasSuffix(c.key, ":meta"):
		return true // each library writes its own name
	case name == "stacktrace":
		return sameLength(first, second)
	case strings.HasSuffix(c.key, processedSuffix):
		return sameJSON(first, second, exactly)
	}
	if about, ok := jsonFields[name]; ok {
		if about.userGiven {
			return sameJSON(first, second, exactly)
		}
		return sameJSON(first, second, c.present.sameNumber)
	}
	return c.present.sameText(first, second)
}

// sameLength compares the number of stack traces. Their texts are specific to the language.
func sameLength(first, second string) bool {
	var a, b []string
	if json.Unmarshal([]byte(first), &a) != nil || json.Unmarshal([]byte(second), &b) != nil {
		return first == second
	}
	return len(a) == len(b)
}

func (c *comparison) stream(first, second [][]Field) {
	for index := range max(len(first), len(second)) {
		part := fmt.Sprintf("entry %d", index+1)
		switch {
		case index >= len(first):
			c.differ(part, absent, formatEntry(second[index]))
		case index >= len(second):
			c.differ(part, formatEntry(first[index]), absent)
		case !c.sameEntry(first[index], second[index]):
			c.differ(part, formatEntry(first[index]), formatEntry(second[index]))
		}
	}
}

func (c *comparison) sameEntry(first, second []Field) bool {
	return slices.EqualFunc(first, second, func(a, b Field) bool {
		return a.Name == b.Name && c.sameField(a.Name, a.Value, b.Value)
	})
}

func (c *comparison) lives(first, second *Span) {
	describe := func(life *Span) string {
		if life == nil {
			return "does not expire"
		}
		return life.String()
	}
	if (first == nil) != (second == nil) || first != nil && !first.matches(*second) {
		c.differ("expiry", describe(first), describe(second))
	}
}

// String returns the value as shown in reports.
func (v Value) String() string {
	switch v.Type {
	case "string":
		return v.Text
	case "list":
		return v.Type + " " + quoteAll(v.List)
	case "set":
		return v.Type + " " + quoteAll(v.Members)
	case "zset":
		return v.Type + " " + formatScored(v.Scored)
	case "hash":
		var parts []string
		for name, value := range v.Fields {
			parts = append(parts, name+"="+value)
		}
		sort.Strings(parts)
		return v.Type + " {" + strings.Join(parts, ", ") + "}"
	case "stream":
		return fmt.Sprintf("stream of %d entries", len(v.Entries))
	}
	return v.Type
}

func quoteAll(texts []string) string { return fmt.Sprintf("%q", texts) }

func formatScored(members []ScoredMember) string {
	parts := make([]string, 0, len(members))
	for _, member := range members {
		parts = append(parts, fmt.Sprintf("%s=%s", member.Member, formatScore(member.Score)))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func formatEntry(fields []Field) string {
	parts := make([]string, 0, len(fields))
	for _, field := range fields {
		parts = append(parts, field.Name+"="+field.Value)
	}
	return strings.Join(parts, " ")
}
