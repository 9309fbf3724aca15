package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"strings"
)

// readFiles reads the files that contain values. given has the names of the settings that a flag
// or a variable has set.
func (c *config) readFiles(given map[string]bool) error {
	for _, group := range c.settings() {
		for _, s := range group.settings {
			if s.file == nil || *s.file == "" {
				continue
			}
			if given[s.name] {
				return fmt.Errorf("both -%s-file and %s are set; keep one of them", s.name, s.variable())
			}
			content, err := os.ReadFile(*s.file)
			if err != nil {
				return fmt.Errorf("-%s-file: %w", s.name, err)
			}
			if err := s.set(strings.TrimSpace(string(content))); err != nil {
				return fmt.Errorf("-%s-file %s: %w", s.name, *s.file, err)
			}
		}
	}
	return nil
}

// addHeaders adds headers, one in each line. Its errors don't contain them.
func (c *config) addHeaders(lines string) error {
	if c.push.Header == nil {
		c.push.Header = http.Header{}
	}
	for line := range strings.Lines(lines) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !isToken(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return errors.New("a line is not a header; write Name: value")
		}
		c.push.Header.Add(textproto.CanonicalMIMEHeaderKey(name), value)
	}
	return nil
}

// isToken reports whether a text can be the name of a header.
func isToken(name string) bool {
	return name != "" && strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
