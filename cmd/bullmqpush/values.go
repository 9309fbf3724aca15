package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The functions of this file return functions that parse a value and store it. The errors of
// these state what to write instead.

func text(to *string) func(string) error {
	return func(text string) error {
		*to = text
		return nil
	}
}

func boolean(to *bool) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.ParseBool(text); err != nil {
			return errors.New("write true or false")
		}
		return nil
	}
}

func number[T int | int64](to *T, least T) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 0)
		if err != nil || T(n) < least {
			return fmt.Errorf("write a whole number, at least %d", least)
		}
		*to = T(n)
		return nil
	}
}

// breaker is number for bullmqpush.Options.BreakerFailures, where 0 means the default.
func breaker(to *int) func(string) error {
	return func(text string) error {
		err := number(to, 0)(text)
		if err == nil && *to == 0 {
			*to = -1
		}
		return err
	}
}

func duration(to *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Millisecond {
			return errors.New("write a duration with its unit, such as 500ms, 30s or 2m")
		}
		*to = d
		return nil
	}
}

func words(to *[]string) func(string) error {
	return func(text string) error {
		*to = append(*to, strings.Fields(text)...)
		return nil
	}
}

// split returns the elements of a list, which are separated by commas or spaces.
func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
}

func list(to *[]string) func(string) error {
	return func(text string) error {
		*to = append(*to, split(text)...)
		return nil
	}
}

func numbers(to *[]int) func(string) error {
	return func(text string) error {
		all := []int{} // not nil, which would mean the default
		if text == "none" {
			text = ""
		}
		for _, element := range split(text) {
			n, err := strconv.Atoi(element)
			if err != nil {
				return errors.New("write numbers separated by commas, such as 410,422, or none")
			}
			all = append(all, n)
		}
		*to = all
		return nil
	}
}

func networks(to *[]netip.Prefix) func(string) error {
	return func(text string) error {
		for _, element := range split(text) {
			network, err := netip.ParsePrefix(element)
			if address, isAddress := netip.ParseAddr(element); isAddress == nil && address.Zone() == "" {
				network, err = netip.PrefixFrom(address, address.BitLen()), nil
			}
			if err != nil {
				return fmt.Errorf("%s is not a network; write it like 10.1.0.0/16 or fd00:1::/64", element)
			}
			*to = append(*to, network)
		}
		return nil
	}
}

func oneOf(to *string, choices ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(choices, text) {
			return errors.New("write " + strings.Join(choices, " or "))
		}
		*to = text
		return nil
	}
}

func level(to *slog.Level) func(string) error {
	return func(text string) error {
		if err := to.UnmarshalText([]byte(text)); err != nil {
			return errors.New("write debug, info, warn or error")
		}
		return nil
	}
}
