// Package browsertest tests the pages of package dashboard in a real Chromium, with workers in
// Go and in Node. It has tests only: make browser runs them.
package browsertest
