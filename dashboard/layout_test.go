package dashboard_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The layout of the dashboard", func() {
	It("marks the current page, and has a skip link and landmarks", func() {
		s := open(nil)
		s.queue("orders")
		for path, current := range map[string]string{"/": "Queues", "/queues/orders": "Queues", "/workers": "Workers", "/metrics": "Metrics"} {
			text := s.page(path)
			Expect(text).To(MatchRegexp(`(?s)<nav aria-label="Pages">.*aria-current="page">`+current+`</a>.*</nav>`), path)
			Expect(text).To(MatchRegexp(`(?s)<a class="skip" href="#main">.*<header>.*<main id="main".*<footer>`), path)
		}
		Expect(s.page("/queues/orders")).To(MatchRegexp(`aria-label="Pages of the queue".*aria-current="page">Jobs`))
	})

	It("has no script or style in its templates, which the Content Security Policy would block", func() {
		files, err := fs.Glob(os.DirFS("templates"), "*.gohtml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			text, err := os.ReadFile("templates/" + file)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).NotTo(MatchRegexp(`(?i)\sstyle=|<style|\son[a-z]+=|javascript:`), file)
			for _, script := range regexp.MustCompile(`(?i)<script[^>]*>`).FindAllString(string(text), -1) {
				Expect(script).To(ContainSubstring(" src="), file)
			}
		}
	})

	It("serves its own scripts, its style and its icon with their types", func() {
		s := open(nil)
		for path, kind := range map[string]string{"style.css": "text/css", "theme.js": "text/javascript", "time.js": "text/javascript", "icon.svg": "image/svg+xml"} {
			response, text := s.get("/assets/" + path)
			Expect(response.StatusCode).To(Equal(200), path)
			Expect(response.Header.Get("Content-Type")).To(HavePrefix(kind), path)
			Expect(strings.TrimSpace(text)).NotTo(BeEmpty(), path)
		}
	})
})
