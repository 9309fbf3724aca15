package scripts

import (
	"regexp"
	"slices"
	"strings"
)

// function is a function of a part. Its text includes the declarations of variables before it.
type function struct{ name, text string }

var (
	functionStart = regexp.MustCompile(`^(?:local )?function (\w+)`)
	identifier    = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// functionsOf splits the body of a part into functions. A function ends with the line
// "end".
func functionsOf(body string) (functions []function) {
	var lines []string
	name := ""
	for line := range strings.Lines(body + "\n") {
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

// reached returns the functions that text needs, directly or indirectly, in their order.
// Redis creates all functions of a script at every call, so unused functions would cost time.
func reached(functions []function, text string) []function {
	needed := map[string]bool{}
	for texts := []string{text}; len(texts) > 0; texts = texts[1:] {
		words := identifier.FindAllString(texts[0], -1)
		for _, f := range functions {
			if !needed[f.name] && slices.Contains(words, f.name) {
				needed[f.name] = true
				texts = append(texts, f.text)
			}
		}
	}
	return slices.DeleteFunc(functions, func(f function) bool { return !needed[f.name] })
}
