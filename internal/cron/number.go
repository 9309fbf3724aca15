package cron

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	decimal = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	based   = regexp.MustCompile(`^0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)$`)
)

const digits = "0123456789"

// number parses a whole text as JavaScript's Number does: 07 is 7, and 0x1f and 1e1 are numbers.
func number(text string) (float64, bool) {
	switch {
	case text == "":
		return 0, false
	case strings.Trim(text, digits) == "", decimal.MatchString(text):
		n, _ := strconv.ParseFloat(text, 64) // too large becomes infinity
		return n, true
	case based.MatchString(text):
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return math.Inf(1), true
		}
		return float64(n), true
	}
	return 0, false
}

// leadingNumber parses the whole number at the start of a text, as JavaScript's parseInt does.
func leadingNumber(text string) (float64, bool) {
	unsigned := text
	if text != "" && (text[0] == '+' || text[0] == '-') {
		unsigned = text[1:]
	}
	rest := strings.TrimLeft(unsigned, digits)
	if rest == unsigned {
		return 0, false
	}
	n, _ := strconv.ParseFloat(strings.TrimSuffix(text, rest), 64) // too large becomes infinity
	return n, true
}
