package browsertest

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// nameScript returns what a reader calls the element with the focus.
const nameScript = `(e => (e.labels && e.labels.length ? e.labels[0].innerText : e.ariaLabel || e.innerText || e.value || '').trim().replace(/\s+/g, ' '))(document.activeElement)`

// tabTo presses Tab until the element of a name has the focus.
func (t *tab) tabTo(name string) {
	GinkgoHelper()
	var seen []string
	for range 200 {
		t.do(chromedp.KeyEvent(kb.Tab))
		at := eval[string](t, nameScript)
		if at == name {
			return
		}
		seen = append(seen, at)
	}
	Fail(fmt.Sprintf("Tab does not reach %q, but %.1000q", name, seen))
}

// enter presses Enter, which opens another page, and waits for it.
func (t *tab) enter() {
	GinkgoHelper()
	t.do(chromedp.Steps(func() chromedp.Action[chromedp.Void] {
		wait := chromedp.WaitEvent(page.LoadEventFired, nil, chromedp.KeyEvent(kb.Enter))
		return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := wait(ctx, target)
			return err
		})
	}()))
	t.settle()
}

// fill writes a value to the field with a label, or ticks it. A choice is selected by its first letters.
func (t *tab) fill(label, value string) {
	GinkgoHelper()
	t.tabTo(label)
	switch kind := eval[string](t, "document.activeElement.type"); kind {
	case "checkbox":
		t.do(chromedp.KeyEvent(" "))
	case "select-one":
		t.do(chromedp.KeyEvent(value))
		Expect(eval[string](t, "document.activeElement.value")).To(Equal(value))
	default:
		_ = eval[bool](t, "document.activeElement.select(), true")
		t.do(call(input.InsertText, input.InsertTextParams{Text: value}))
	}
}
