package scripts

import (
	"regexp"
	"strings"
)

// prune leaves out the functions of parts that a command doesn't reach: each
// would be made anew whenever the script runs, which a short script feels.
// Parts hold functions only, one after the other, each ending with a line end.
func prune(parts []string, own string) string {
	type function struct {
		name, text string
		used       bool
	}
	var functions []*function
	for _, part := range parts {
		var lines []string
		name := ""
		for line := range strings.Lines(part) {
			lines = append(lines, line)
			if match := functionStart.FindStringSubmatch(line); match != nil {
				name = match[1]
			}
			if strings.TrimRight(line, "\n") == "end" {
				functions = append(functions, &function{name: name, text: strings.Join(lines, "")})
				lines, name = nil, ""
			}
		}
		if len(lines) > 0 {
			panic("bullmq/scripts: a part holds more than functions: " + strings.Join(lines, ""))
		}
	}
	reach := []string{own}
	for len(reach) > 0 {
		text := reach[0]
		reach = reach[1:]
		for _, word := range identifier.FindAllString(text, -1) {
			for _, f := range functions {
				if !f.used && f.name == word {
					f.used = true
					reach = append(reach, f.text)
				}
			}
		}
	}
	var kept strings.Builder
	for _, f := range functions {
		if f.used {
			kept.WriteString(f.text)
		}
	}
	return kept.String() + own
}

var (
	functionStart = regexp.MustCompile(`^(?:local )?function (\w+)`)
	identifier    = regexp.MustCompile(`[A-Za-z_]\w*`)
)
