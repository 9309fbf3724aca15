package main

import (
	"fmt"
	"runtime/debug"
	"strings"
)

const introduction = `bullmqpush runs the jobs of BullMQ queues by HTTP. It sends each job to the
endpoint of its queue, as a signed POST request. 2xx completes a job.

  export BULLMQPUSH_KEYS=$(bullmqpush -new-key)
  bullmqpush -redis redis://127.0.0.1:6379 -queue invoices=https://billing.example.com/jobs

Each flag can also be set by the variable of the environment in brackets. The
flag takes precedence. Secrets are set by a variable or by a file, since all
users can see the flags of a process.
`

// Widths of the help.
const (
	helpIndent = "        "
	helpWidth  = 80
)

// helpText returns what -help prints.
func helpText(groups []group) string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, group := range groups {
		b.WriteString("\n" + group.title + ":\n\n")
		for _, s := range group.settings {
			head, end := strings.TrimRight("  -"+s.name+" "+s.holder, " "), " ["+s.variable()+"]"
			if s.secret {
				head, end = "  "+s.variable()+"="+s.holder, ""
			}
			words := s.help
			if s.standard != "" {
				words += " Defaults to " + s.standard + "."
			}
			b.WriteString(head + "\n" + wrap(words+end))
		}
	}
	b.WriteString("\nOther calls:\n\n")
	for _, call := range [][2]string{
		{"-new-key", "Prints a random key for BULLMQPUSH_KEYS and the receivers."},
		{"-version", "Prints the version."},
		{"-help", "Prints this text."},
	} {
		b.WriteString("  " + call[0] + "\n" + wrap(call[1]))
	}
	return b.String()
}

// wrap breaks a text into indented lines.
func wrap(text string) string {
	var b strings.Builder
	line := helpIndent[1:]
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > helpWidth {
			b.WriteString(line + "\n")
			line = helpIndent[1:]
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// versionText returns the version of the command, as it was built.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "bullmqpush, of an unknown version"
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "of an unknown version"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version = "of revision " + s.Value
			}
		}
	}
	return fmt.Sprintf("bullmqpush %s, %s", version, info.GoVersion)
}
