package cronwords_test

import (
	"strings"
	"testing"

	"github.com/17a2ac88/bullmq-go/internal/cronwords"
)

// FuzzDescribe checks that every pattern that parses has a short description.
func FuzzDescribe(f *testing.F) {
	for _, pattern := range []string{"* * * * *", "H H(0-7) H/10 * *", "0 9 * * 5L", "5/10 */99 ? ? ?", "0 0 15L * *", "0 0 * * 1.5#2", "1-5-7 * * * *", "0 0 * JAN,dec Mon-FRI"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		words, err := cronwords.Describe(pattern)
		if err == nil && (words == "" || len(words) > 1000 || strings.Contains(words, "  ")) {
			t.Errorf("Describe(%q) = %q", pattern, words)
		}
	})
}
