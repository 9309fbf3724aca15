package main

import (
	"strings"
	"unicode"
)

// wide are the characters that take two cells of a terminal, as far as the demo uses them: East Asian scripts
// and punctuation, fullwidth forms, and emoji.
var wide = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
	{
		R16: []unicode.Range16{{Lo: 0x3000, Hi: 0x303e, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1}},
	},
}

// cells returns the number of terminal cells of a character.
func cells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Cc):
		return 0
	case unicode.In(r, wide...):
		return 2
	}
	return 1
}

func width(text string) int {
	sum := 0
	for _, r := range text {
		sum += cells(r)
	}
	return sum
}

// fit returns a text of exactly size cells: truncated with an ellipsis or padded with spaces.
func fit(text string, size int, right bool) string {
	if width(text) > size {
		var cut strings.Builder
		used := 0
		for _, r := range text {
			if used+cells(r) > size-1 {
				break
			}
			cut.WriteRune(r)
			used += cells(r)
		}
		text = cut.String() + "…"
	}
	space := strings.Repeat(" ", max(size-width(text), 0))
	if right {
		return space + text
	}
	return text + space
}
