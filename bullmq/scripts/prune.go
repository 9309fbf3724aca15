package scripts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// function is one of a part, with the lines before it that declare names.
type function struct{ name, text string }

// prune leaves out the functions of parts that a command doesn't reach: each
// would be made anew whenever the script runs, which a short script feels.
// Those that are called rarely, and what only they reach, are made when first
// called. Parts hold functions only, one after the other, each ending with a
// line end.
func prune(parts []string, own string, rarely []string) string {
	var functions []function
	for _, part := range parts {
		functions = append(functions, functionsOf(part)...)
	}
	always := reach(functions, own, rarely)
	var kept strings.Builder
	for _, f := range functions {
		switch {
		case !always[f.name]:
		case slices.Contains(rarely, f.name):
			inner := reach(functions, f.text, nil)
			fmt.Fprintf(&kept, "local %sMade\nlocal function make_%s()\n", f.name, f.name)
			for _, g := range functions {
				if inner[g.name] && !always[g.name] {
					kept.WriteString(g.text)
				}
			}
			fmt.Fprintf(&kept, "%sreturn %s\nend\n", f.text, f.name)
			fmt.Fprintf(&kept, "local function %[1]s(...)\n%[1]sMade = %[1]sMade or make_%[1]s()\nreturn %[1]sMade(...)\nend\n", f.name)
		default:
			kept.WriteString(f.text)
		}
	}
	return kept.String() + own
}

func functionsOf(part string) (functions []function) {
	var lines []string
	name := ""
	for line := range strings.Lines(part) {
		lines = append(lines, line)
		if match := functionStart.FindStringSubmatch(line); match != nil {
			name = match[1]
		}
		if strings.TrimRight(line, "\n") == "end" {
			functions = append(functions, function{name, strings.Join(lines, "")})
			lines, name = nil, ""
		}
	}
	if len(lines) > 0 {
		panic("bullmq/scripts: a part holds more than functions: " + strings.Join(lines, ""))
	}
	return functions
}

// reach is what a text needs, directly or through others; not through those at
// which it stops.
func reach(functions []function, text string, stops []string) map[string]bool {
	reached := map[string]bool{}
	todo := []string{text}
	for len(todo) > 0 {
		words := identifier.FindAllString(todo[0], -1)
		todo = todo[1:]
		for _, f := range functions {
			if !reached[f.name] && slices.Contains(words, f.name) {
				reached[f.name] = true
				if !slices.Contains(stops, f.name) {
					todo = append(todo, f.text)
				}
			}
		}
	}
	return reached
}

var (
	functionStart = regexp.MustCompile(`^(?:local )?function (\w+)`)
	identifier    = regexp.MustCompile(`[A-Za-z_]\w*`)
)
