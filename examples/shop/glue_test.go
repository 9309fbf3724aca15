package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"testing"
)

// glueLines returns the number of lines of a file with code, without its package clause
// and imports.
func glueLines(t *testing.T, file string) int {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	head := set.Position(parsed.Name.End()).Line
	for _, declaration := range parsed.Decls {
		if imports, ok := declaration.(*ast.GenDecl); ok && imports.Tok == token.IMPORT {
			head = set.Position(imports.End()).Line
		}
	}
	lines := map[int]bool{}
	var tokens scanner.Scanner
	tokens.Init(set.AddFile(file, -1, len(source)), source, nil, 0) // without comments
	for {
		position, kind, _ := tokens.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if line := set.Position(position).Line; line > head {
			lines[line] = true
		}
	}
}

func TestTheGlueIsShort(t *testing.T) {
	lines := glueLines(t, "main.go") + glueLines(t, "http.go")
	if lines > 80 {
		t.Errorf("main.go and http.go have %d lines, more than 80", lines)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("**%d lines**", lines); !strings.Contains(string(readme), text) {
		t.Errorf("README.md does not say that there are %s", text)
	}
}
