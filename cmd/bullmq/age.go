package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// age is a flag with a duration, which may begin with days.
type age time.Duration

// String implements pflag.Value. The default of all these flags is none.
func (a *age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Set implements pflag.Value.
func (a *age) Set(text string) error {
	d, err := parseAge(text)
	*a = age(d)
	return err
}

// Type implements pflag.Value.
func (a *age) Type() string { return "duration" }

// mostDays bounds durations, so that a date that is calculated with one exists.
const mostDays = 36500

// parseAge returns a duration such as 90s, 1h30m, 7d or 1d12h.
func parseAge(text string) (time.Duration, error) {
	invalid := fmt.Errorf("%q is not a duration such as 90s, 1h30m or 7d", printable(text, longestCell))
	rest, days := text, 0
	if count, after, has := strings.Cut(text, "d"); has {
		var err error
		if days, err = strconv.Atoi(count); err != nil || days < 0 || days > mostDays {
			return 0, invalid
		}
		rest = after
	}
	d := time.Duration(days) * 24 * time.Hour
	if rest != "" || text == "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 || more > mostDays*24*time.Hour {
			return 0, invalid
		}
		d += more
	}
	return d, nil
}
