// Comparelua compares two directories of Lua files and prints the runs of lines that occur in both. Our Lua
// is written from behaviour, so it must share no run with the Lua of the npm package.
//
//	go run ./tools/comparelua [-lines 5] OURS REFERENCE
//
// Two lines are equal if they differ only in spaces, comments, the names of local variables and the name of
// the function that calls Redis. Lines that only open or close a block, and lines without a name of their
// own, are skipped. The exit status is 1 if a run was found, and 2 if a directory has no Lua files.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	length := flag.Int("lines", 5, "the number of equal lines in succession that are reported")
	flag.Parse()
	if flag.NArg() != 2 || *length < 1 {
		fmt.Fprintln(os.Stderr, "usage: comparelua [-lines 5] OURS REFERENCE")
		os.Exit(2)
	}
	runs, err := compare(os.Stdout, flag.Arg(0), flag.Arg(1), *length)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "comparelua:", err)
		os.Exit(2)
	case runs > 0:
		os.Exit(1)
	}
}

// line is a line of code in its normal form.
type line struct {
	text   string
	number int
}

// compare prints where the files of ours share a run of lines with those of reference, and returns how many
// files and places it printed. Runs that overlap are printed as one.
func compare(out io.Writer, ours, reference string, length int) (int, error) {
	theirs, err := luaFiles(reference)
	if err != nil {
		return 0, err
	}
	known := map[string]string{}
	for _, path := range theirs {
		lines, err := readLines(path)
		if err != nil {
			return 0, err
		}
		for start := 0; start+length <= len(lines); start++ {
			known[key(lines[start:start+length])] = fmt.Sprintf("%s:%d", path, lines[start].number)
		}
	}

	own, err := luaFiles(ours)
	if err != nil {
		return 0, err
	}
	runs := 0
	for _, path := range own {
		lines, err := readLines(path)
		if err != nil {
			return 0, err
		}
		for start := 0; start+length <= len(lines); start++ {
			place, found := known[key(lines[start:start+length])]
			if !found {
				continue
			}
			end := start + length
			for end < len(lines) && known[key(lines[end-length+1:end+1])] != "" {
				end++
			}
			runs++
			fmt.Fprintf(out, "%s:%d: %d lines equal %s\n", path, lines[start].number, end-start, place)
			start = end - 1
		}
	}
	fmt.Fprintf(out, "compared %d Lua files with %d in %s: %d equal runs of %d or more lines\n",
		len(own), len(theirs), reference, runs, length)
	return runs, nil
}

func key(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// luaFiles returns the Lua files of a directory and those below it. Files made from others, in testdata, are
// left out.
func luaFiles(directory string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".lua":
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no Lua files", directory)
	}
	return files, err
}

func readLines(path string) ([]line, error) {
	source, err := os.ReadFile(path)
	return normalize(string(source)), err
}

var (
	blockComment = regexp.MustCompile(`(?s)--\[\[.*?\]\]`)
	lineComment  = regexp.MustCompile(`--.*`)
	locals       = regexp.MustCompile(`\blocal[ \t]+(?:function[ \t]+)?([\w \t,]+)`)
	parameters   = regexp.MustCompile(`\bfunction\b[\s\w.:]*\(([^)]*)\)`)
	loops        = regexp.MustCompile(`\bfor[ \t]+([\w \t,]+?)\s*(?:=|\bin\b)`)
	redisCall    = regexp.MustCompile(`\b(?:redis\.call|redis\.pcall|rcall|call)\b`)
	name         = regexp.MustCompile(`[A-Za-z_]\w*`)
	word         = regexp.MustCompile(`["'\w]`)
	blank        = regexp.MustCompile(`^(?:end|else|return|local|do|then|repeat|break|_|[^\w"'])*$`)
)

// normalize returns the lines of a Lua file that carry meaning, without what two authors of the same code
// would name differently.
func normalize(source string) []line {
	source = blockComment.ReplaceAllStringFunc(source, func(comment string) string {
		return strings.Repeat("\n", strings.Count(comment, "\n"))
	})
	source = lineComment.ReplaceAllString(source, "")

	isLocal := map[string]bool{}
	for _, pattern := range []*regexp.Regexp{locals, parameters, loops} {
		for _, list := range pattern.FindAllStringSubmatch(source, -1) {
			for _, declared := range name.FindAllString(list[1], -1) {
				isLocal[declared] = true
			}
		}
	}
	var lines []line
	for i, text := range strings.Split(source, "\n") {
		text = redisCall.ReplaceAllString(text, "redis")
		text = name.ReplaceAllStringFunc(text, func(found string) string {
			if isLocal[found] {
				return "_"
			}
			return found
		})
		text = strings.Join(strings.Fields(text), "")
		if word.MatchString(text) && !blank.MatchString(text) {
			lines = append(lines, line{text, i + 1})
		}
	}
	return lines
}
