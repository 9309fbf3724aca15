package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// stepLimit bounds each action in the browser.
const stepLimit = 20 * time.Second

// chromium is the browser of the suite.
type chromium struct {
	ctx    context.Context
	folder string
}

// startChromium starts Chromium. It ends with the suite. The fonts are those of one package, so
// that pages have the same layout on each machine.
func startChromium() *chromium {
	GinkgoHelper()
	program, err := findChromium()
	Expect(err).NotTo(HaveOccurred())
	folder, err := os.MkdirTemp("", "browsertest")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, folder)
	fonts := filepath.Join(folder, "fonts.conf")
	Expect(os.WriteFile(fonts, []byte(fontConfiguration(folder)), 0o600)).To(Succeed())

	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		chromedp.UserDataDir(filepath.Join(folder, "profile")),
		chromedp.Env("FONTCONFIG_FILE="+fonts, "HOME="+folder, "TZ=UTC"),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), // no other machine
		chromedp.Flag("disable-crash-reporter", true),
		chromedp.Flag("no-sandbox", os.Getuid() == 0), // Chromium has no sandbox for root
		chromedp.Flag("lang", "en-US"),
		chromedp.Flag("font-render-hinting", "none"),
	)...)
	ctx, cancel := chromedp.NewContext(allocator)
	DeferCleanup(func() {
		ending, stopWaiting := context.WithTimeout(ctx, stepLimit)
		defer stopWaiting()
		Expect(chromedp.Cancel(ending)).To(Succeed())
		cancel()
		stop()
		Eventually(func() []string { return processesWith(folder) }).Should(BeEmpty(), "Chromium left processes behind")
	})
	Expect(chromedp.Do(ctx)).To(Succeed(), "start %s", program)
	return &chromium{ctx: ctx, folder: folder}
}

// findChromium returns the program of CHROMIUM, or the first one on the path.
func findChromium() (string, error) {
	if program := os.Getenv("CHROMIUM"); program != "" {
		return program, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("chromium is not installed: run tools/ensure-chromium.sh")
}

// fontFolder has the fonts of Debian's package fonts-dejavu-core.
const fontFolder = "/usr/share/fonts/truetype/dejavu"

// fontConfiguration makes DejaVu the font for everything.
func fontConfiguration(cache string) string {
	return fmt.Sprintf(`<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>%s</dir>
<cachedir>%s/fonts</cachedir>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
<match target="pattern"><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
</fontconfig>`, fontFolder, cache)
}

// processesWith returns the command lines that contain a text, of processes that have not ended.
func processesWith(text string) (found []string) {
	folders, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	for _, path := range folders {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// view is how a page is looked at.
type view struct {
	dark     bool
	width    int64
	height   int64
	noScript bool
	zone     string // the reader's time zone; UTC without one
}

func (v view) String() string {
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	return fmt.Sprintf("%s, %d px wide", scheme, v.width)
}

// views are those in which the layout of each page is checked.
var views = []view{{width: 1280}, {width: 1280, dark: true}, {width: 400}, {width: 400, dark: true}}

// widths are those in which the layout is compared with a reference.
var widths = []view{{width: 1280}, {width: 400}}

// tab is a tab of the browser. It collects what is wrong with the pages that it loads.
type tab struct {
	ctx context.Context

	lock     sync.Mutex
	problems []string
	status   map[string]int64 // of the documents, by their address
	expected map[int64]bool   // statuses that are no problem for a document
	view     view
}

// open opens a tab until the spec ends.
func (c *chromium) open(v view) *tab {
	GinkgoHelper()
	t := &tab{status: map[string]int64{}, expected: map[int64]bool{200: true}}
	ctx, cancel := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(t.listen))
	DeferCleanup(cancel)
	t.ctx = ctx
	t.do(call(network.Enable, network.EnableParams{}))
	t.do(call(log.Enable, cdp.Empty{}))
	t.do(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		document.addEventListener('securitypolicyviolation', event =>
			console.error('policy violated: ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sample));`}))
	// Several tabs have the focus at the same time.
	t.do(call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	t.look(v)
	return t
}

// look changes how the tab shows pages.
func (t *tab) look(v view) {
	GinkgoHelper()
	t.view = v
	scheme, zone, height := "light", v.zone, v.height
	if v.dark {
		scheme = "dark"
	}
	if zone == "" {
		zone = "UTC"
	}
	if height == 0 {
		height = 900
	}
	t.do(call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.width, Height: height, DeviceScaleFactor: 1}))
	t.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}))
	t.do(call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone}))
	t.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.noScript}))
}

// listen notes what goes wrong.
func (t *tab) listen(event any) {
	t.lock.Lock()
	defer t.lock.Unlock()
	note := func(format string, arguments ...any) {
		t.problems = append(t.problems, fmt.Sprintf(format, arguments...))
	}
	switch e := event.(type) {
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument {
			t.status[e.Response.URL] = e.Response.Status
			if t.expected[e.Response.Status] {
				return
			}
		}
		if e.Response.Status >= 400 {
			note("%s of %s", e.Response.StatusText, e.Response.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			note("a request failed: %s", e.ErrorText)
		}
	case *page.EventJavascriptDialogOpening:
		note("a script of the data runs: %s", e.Message)
	case *runtime.EventExceptionThrown:
		note("exception: %s", exceptionText(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var text []string
			for _, argument := range e.Args {
				text = append(text, string(argument.Value)+argument.Description)
			}
			note("console: %s", strings.Join(text, " "))
		}
	case *log.EventEntryAdded:
		// A document with an expected status is logged too.
		if e.Entry.Level == log.EntryLevelError && (e.Entry.Source != log.EntrySourceNetwork || !t.expected[t.status[e.Entry.URL]]) {
			note("log: %s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
}

func exceptionText(details *runtime.ExceptionDetails) string {
	if details.Exception != nil && details.Exception.Description != "" {
		return details.Exception.Description
	}
	return details.Text
}

// found returns the problems since the last call.
func (t *tab) found() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	problems := t.problems
	t.problems = nil
	return problems
}

// load loads a page and checks that nothing went wrong.
func (t *tab) load(address string) {
	GinkgoHelper()
	t.do(chromedp.Navigate(address))
	t.settle()
	Expect(t.found()).To(BeEmpty(), address)
}

// text returns what the page shows.
func (t *tab) text() string {
	GinkgoHelper()
	return eval[string](t, "document.body.innerText")
}

// settle waits until the page is shown.
func (t *tab) settle() {
	GinkgoHelper()
	if t.view.noScript {
		return // no function of the page is called
	}
	_ = eval[bool](t, `document.fonts.ready.then(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))`)
}

// do runs an action.
func (t *tab) do(action chromedp.Action[chromedp.Void]) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(t.begun(), stepLimit)
	defer cancel()
	Expect(chromedp.Do(ctx, action)).To(Succeed())
}

// begun returns the context of the tab after it was opened: the first action must have no limit.
func (t *tab) begun() context.Context {
	GinkgoHelper()
	if chromedp.FromContext(t.ctx).Target == nil {
		Expect(chromedp.Do(t.ctx)).To(Succeed())
	}
	return t.ctx
}

// eval returns what an expression evaluates to in the page. A promise is awaited.
func eval[T any](t *tab, expression string) T {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(t.begun(), stepLimit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	Expect(err).NotTo(HaveOccurred(), "evaluate %.200s", expression)
	return value
}

// call returns an action that sends one command of the DevTools protocol.
func call[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, parameters)
		return err
	})
}
