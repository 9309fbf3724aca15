package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// group is a section of the help.
type group struct {
	title    string
	settings []setting
}

// setting can be set by a flag and by a variable of the environment.
type setting struct {
	name     string // of the flag
	holder   string // stands for the value in the help; empty for a switch
	help     string // in sentences
	standard string // the default; empty for none
	option   string // the field of bullmqpush.Options, which its errors name
	set      func(text string) error
	secret   bool    // the value may not be in a flag
	refuse   string  // a character in values that may not be in a flag
	file     *string // a file that contains the value, set by -<name>-file; nil for none
}

// variable returns the name of the variable of the environment.
func (s setting) variable() string {
	return "BULLMQPUSH_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// fromFlag sets a value of the command line.
func (s setting) fromFlag(text string) error {
	if s.secret || s.refuse != "" && strings.Contains(text, s.refuse) { // an error without the text
		return fmt.Errorf("-%s has a secret, but all users can see the flags of a process; set %s or -%s-file", s.name, s.variable(), s.name)
	}
	if err := s.set(text); err != nil {
		return fmt.Errorf("-%s %q: %w", s.name, text, err)
	}
	return nil
}

// fromVariable sets the value of the variable. Its errors don't contain the value, which may be
// secret.
func (s setting) fromVariable(text string) error {
	if err := s.set(text); err != nil {
		return fmt.Errorf("%s: %w", s.variable(), err)
	}
	return nil
}

// parse sets everything by the flags, by the variables of those that are not given, and by the
// files that they name.
func (c *config) parse(arguments []string, variable func(name string) (string, bool)) error {
	c.setDefaults()
	given, err := c.parseFlags(arguments)
	if err != nil || c.help || c.version || c.newKey {
		return err
	}
	for _, group := range c.settings() {
		for _, s := range group.settings {
			if value, ok := variable(s.variable()); ok && value != "" && !given[s.name] {
				if err := s.fromVariable(value); err != nil {
					return err
				}
				given[s.name] = true
			}
		}
	}
	if err := c.readFiles(given); err != nil {
		return err
	}
	return c.check()
}

// parseFlags sets the values of the command line, and returns the names of the given flags.
func (c *config) parseFlags(arguments []string) (map[string]bool, error) {
	flags := flag.NewFlagSet("bullmqpush", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&c.help, "help", false, "")
	flags.BoolVar(&c.help, "h", false, "")
	flags.BoolVar(&c.version, "version", false, "")
	flags.BoolVar(&c.newKey, "new-key", false, "")
	var refused error // in our words; package flag would print the value
	for _, group := range c.settings() {
		for _, s := range group.settings {
			add := flags.Func
			if s.holder == "" {
				add = flags.BoolFunc
			}
			add(s.name, "", func(text string) error {
				refused = s.fromFlag(text)
				return refused
			})
		}
	}
	err := flags.Parse(arguments)
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("there is an argument without a flag, %q; give queues by -queue NAME=URL", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given, nil
}
