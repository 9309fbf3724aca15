package scripts

import (
	"slices"
	"strings"
)

// function is a function of a part. Its text includes the declarations of variables before it.
type function struct {
	name, text string
	words      map[string]bool // identifiers in the text
}

// functionsOf splits the body of a part into functions. A function ends with the line
// "end".
func functionsOf(body string) (functions []function) {
	var lines []string
	name := ""
	for line := range strings.Lines(body + "\n") {
		lines = append(lines, line)
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(line, "local "), "function "); ok {
			name = rest[:wordLength(rest)]
		}
		if strings.TrimRight(line, "\n") == "end" {
			text := strings.Join(lines, "")
			functions = append(functions, function{name, text, wordsOf(text)})
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
	for texts := []map[string]bool{wordsOf(text)}; len(texts) > 0; texts = texts[1:] {
		for _, f := range functions {
			if !needed[f.name] && texts[0][f.name] {
				needed[f.name] = true
				texts = append(texts, f.words)
			}
		}
	}
	return slices.DeleteFunc(functions, func(f function) bool { return !needed[f.name] })
}

// wordsOf returns the identifiers in a text. All processes compose the scripts when they
// start, so regular expressions would be too slow here.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	eachWord(text, func(_, word string) { words[word] = true })
	return words
}

// eachWord passes each identifier to found, with the text between it and the one before. Last
// it passes the text after the last one, with an empty word.
func eachWord(text string, found func(between, word string)) {
	rest := 0
	for i := 0; i < len(text); i++ {
		if !isWord(text[i]) || text[i] >= '0' && text[i] <= '9' {
			continue
		}
		end := i + wordLength(text[i:])
		found(text[rest:i], text[i:end])
		rest, i = end, end-1
	}
	found(text[rest:], "")
}

// wordLength returns how many letters, digits and underscores a text begins with.
func wordLength(text string) int {
	for i := range len(text) {
		if !isWord(text[i]) {
			return i
		}
	}
	return len(text)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
