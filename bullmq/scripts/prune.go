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
// asked for, all by one function: rare. Parts hold functions only, one after the
// other, each ending with a line end.
func prune(parts []string, own string, rarely []string) string {
	var functions []function
	for _, part := range parts {
		functions = append(functions, functionsOf(part)...)
	}
	always, all := reach(functions, own, rarely), reach(functions, own, nil)
	ask := func(text string) string { return asking(text, rarely) }
	var kept, made strings.Builder
	for _, f := range functions {
		switch {
		case all[f.name] && slices.Contains(rarely, f.name):
			fmt.Fprintf(&made, "if name == '%s' then\n", f.name)
			needed := reach(functions, f.text, rarely)
			for _, g := range functions {
				if needed[g.name] && !always[g.name] && !slices.Contains(rarely, g.name) {
					made.WriteString(ask(g.text))
				}
			}
			fmt.Fprintf(&made, "%smade[name] = %s\nend\n", ask(f.text), f.name)
		case always[f.name]:
			kept.WriteString(ask(f.text))
		}
	}
	if made.Len() == 0 {
		return kept.String() + own
	}
	return "local rare\n" + kept.String() + "local made = {}\nfunction rare(name)\nif not made[name] then\n" +
		made.String() + "end\nreturn made[name]\nend\n" + ask(own)
}

// asking puts rare's answer in the place of names of functions that it makes.
func asking(text string, rarely []string) string {
	return nameOrText.ReplaceAllStringFunc(text, func(word string) string {
		if slices.Contains(rarely, word) {
			return "rare'" + word + "'"
		}
		return word
	})
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
	nameOrText    = regexp.MustCompile(`(?:function |\.)?[A-Za-z_]\w*|'[^'\n]*'|"[^"\n]*"`) // a name that isn't being declared or a field's, or what names nothing
)
