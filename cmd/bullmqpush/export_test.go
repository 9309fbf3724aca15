package main

import "strings"

// Web returns an HTTP server of the command.
var Web = web

// Check returns the error of the command for flags and variables of the environment.
func Check(variables []string, arguments ...string) error {
	return (&config{}).parse(arguments, func(name string) (string, bool) {
		for _, variable := range variables {
			if value, ok := strings.CutPrefix(variable, name+"="); ok {
				return value, true
			}
		}
		return "", false
	})
}
