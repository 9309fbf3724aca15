package bullmqhttp_test

// Each status and each code that docs/http.md names, as an HTTP client gets it.

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/internal/testkit/faultproxy"
)

// reply is a status with the code of its problem, or "".
type reply struct {
	status int
	code   string
}

// replyCase is a request and its reply.
type replyCase struct {
	reply
	to  string
	ask func() answer
}

// oneQueued starts a service with the defaults and submits a request.
func oneQueued() (s *service, location string) {
	GinkgoHelper()
	s = start(nil, bullmqhttp.Route{}, nil)
	return s, s.submit().header.Get("Location")
}

// finished starts a service whose handler replies with a status, and submits a request whose job ends.
func finished(status int) (s *service, location string) {
	GinkgoHelper()
	s, location = oneQueued()
	s.work(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	s.ended(location)
	return s, location
}

// cancelled starts a service and submits a request whose job is cancelled.
func cancelled() (s *service, location string) {
	GinkgoHelper()
	s, location = oneQueued()
	s.do("DELETE", location, "")
	s.work(func(http.ResponseWriter, *http.Request) {})
	s.ended(location)
	return s, location
}

// refusing starts a service whose options refuse everything.
func refusing(o bullmqhttp.Options) *service {
	GinkgoHelper()
	return start(&o, bullmqhttp.Route{}, nil)
}

// unreachable starts a service, submits a request, and then cuts the connections to Redis. If known is set,
// it waits until the queue knows that.
func unreachable(known bool) (s *service, location string) {
	GinkgoHelper()
	proxy, options := proxied(redis)
	s = start(nil, bullmqhttp.Route{}, options)
	location = s.submit().header.Get("Location")
	Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
	proxy.CutAll()
	if known {
		Eventually(func() bool { s.get(location, ""); return s.queue.Health().Reachable }).Should(BeFalse())
	}
	return s, location
}

var errRefused = errors.New("refused")

var replies = []replyCase{
	{reply{200, ""}, "the status of a job", func() answer { s, location := oneQueued(); return s.get(location, "") }},
	{reply{200, ""}, "a result", func() answer { s, location := finished(200); return s.get(location, "/result") }},
	{reply{200, ""}, "a repeated cancellation", func() answer { s, location := cancelled(); return s.do("DELETE", location, "") }},
	{reply{202, ""}, "a submit", func() answer { return start(nil, bullmqhttp.Route{}, nil).submit() }},
	{reply{202, ""}, "a cancellation", func() answer { s, location := oneQueued(); return s.do("POST", location+"/cancel", "") }},
	{reply{204, ""}, "events after the last one", func() answer { s, location := oneQueued(); return s.get(location, "/events", "Last-Event-ID", "end") }},
	{reply{303, ""}, "a status that leads to the result", func() answer {
		s, location := finished(200)
		return s.get(location, "", "Prefer", "return=representation")
	}},
	{reply{304, ""}, "a status that is the same", func() answer {
		s, location := oneQueued()
		return s.get(location, "", "If-None-Match", s.get(location, "").header.Get("ETag"))
	}},
	{reply{404, ""}, "a result with that status", func() answer { s, location := finished(404); return s.get(location, "/result") }},

	{reply{400, bullmqhttp.CodeInvalidRequest}, "a malformed query", func() answer { return start(nil, bullmqhttp.Route{}, nil).do("POST", "/reports/7?a=%zz", "") }},
	{reply{400, bullmqhttp.CodeInvalidRequest}, "a missing key", func() answer { return start(nil, bullmqhttp.Route{RequireKey: true}, nil).submit() }},
	{reply{400, bullmqhttp.CodeInvalidRequest}, "a malformed wait", func() answer { s, location := oneQueued(); return s.get(location, "?wait=soon") }},
	{reply{400, bullmqhttp.CodeInvalidRequest}, "a malformed Last-Event-ID", func() answer { s, location := oneQueued(); return s.get(location, "/events", "Last-Event-ID", "x") }},
	{reply{401, "NO_TOKEN"}, "a request that Authorize refuses by a Problem", func() answer {
		return refusing(bullmqhttp.Options{Authorize: func(*http.Request, bullmqhttp.Action) error {
			return &bullmqhttp.Problem{Status: 401, Code: "NO_TOKEN", Detail: "send a token"}
		}}).submit()
	}},
	{reply{403, bullmqhttp.CodeForbidden}, "a request that Authorize refuses", func() answer {
		return refusing(bullmqhttp.Options{Authorize: func(*http.Request, bullmqhttp.Action) error { return errRefused }}).submit()
	}},
	{reply{403, bullmqhttp.CodeForbidden}, "a request that Owner refuses", func() answer {
		return refusing(bullmqhttp.Options{Owner: func(*http.Request) (string, error) { return "", errRefused }}).submit()
	}},
	{reply{403, bullmqhttp.CodeForbidden}, "a status that Owner refuses", func() answer {
		s := refusing(bullmqhttp.Options{Owner: func(*http.Request) (string, error) { return "", errRefused }})
		return s.get("/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "")
	}},
	{reply{403, bullmqhttp.CodeForbidden}, "a request that Carry refuses", func() answer {
		return refusing(bullmqhttp.Options{Carry: func(*http.Request) (any, error) { return nil, errRefused }}).submit()
	}},
	{reply{403, bullmqhttp.CodeForbidden}, "a request that Authorize refuses by a Problem without a valid status", func() answer {
		return refusing(bullmqhttp.Options{Authorize: func(*http.Request, bullmqhttp.Action) error { return &bullmqhttp.Problem{Status: 42} }}).submit()
	}},
	{reply{404, bullmqhttp.CodeJobNotFound}, "the status of an unknown job", func() answer {
		return start(nil, bullmqhttp.Route{}, nil).get("/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "")
	}},
	{reply{404, bullmqhttp.CodeJobNotFound}, "the cancellation of an unknown job", func() answer {
		return start(nil, bullmqhttp.Route{}, nil).do("DELETE", "/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "")
	}},
	{reply{404, bullmqhttp.CodeJobNotFound}, "the events of an unknown job", func() answer {
		return start(nil, bullmqhttp.Route{}, nil).get("/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "/events")
	}},
	{reply{404, bullmqhttp.CodeJobNotFound}, "the status of another owner's job", func() answer {
		s := start(&bullmqhttp.Options{Owner: func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }}, bullmqhttp.Route{}, nil)
		return s.get(s.submit("X-User", "ann").header.Get("Location"), "", "X-User", "bob")
	}},
	{reply{405, bullmqhttp.CodeMethodNotAllowed}, "a method that a job does not have", func() answer { s, location := oneQueued(); return s.do("PUT", location, "") }},
	{reply{400, bullmqhttp.CodeInvalidJobID}, "a typed job whose id is a whole number", func() answer {
		return startOrders(bill, func(_ *http.Request, o *order, options *bullmq.JobOptions) error {
			options.JobID = o.ID
			return nil
		}, nil, nil).order(`{"id":"17"}`)
	}},
	{reply{400, bullmqhttp.CodeInvalidJob}, "a typed job whose options are not valid", func() answer {
		return startOrders(bill, func(_ *http.Request, _ *order, options *bullmq.JobOptions) error {
			options.Priority = -1
			return nil
		}, nil, nil).order(`{}`)
	}},
	{reply{409, bullmqhttp.CodeJobExists}, "a typed job with the id of another request", func() answer {
		s := startOrders(bill, byOrder, nil, nil)
		s.order(`{"id":"a"}`)
		return s.order(`{"id":"a","paid":true}`)
	}},
	{reply{422, bullmqhttp.CodeInvalidData}, "a typed job that the check refuses", func() answer {
		return startOrders(bill, func(*http.Request, *order, *bullmq.JobOptions) error { return errRefused }, nil, nil).order(`{}`)
	}},
	{reply{409, bullmqhttp.CodeNotFinished}, "a result before the end", func() answer { s, location := oneQueued(); return s.get(location, "/result") }},
	{reply{409, bullmqhttp.CodeFinished}, "a cancellation after the end", func() answer { s, location := finished(200); return s.do("DELETE", location, "") }},
	{reply{410, bullmqhttp.CodeResultGone}, "the result of an unknown job", func() answer {
		return start(nil, bullmqhttp.Route{}, nil).get("/jobs/rq-bbbbbbbbbbbbbbbbbbbbbb", "/result")
	}},
	{reply{410, bullmqhttp.CodeCancelled}, "the result of a cancelled job", func() answer { s, location := cancelled(); return s.get(location, "/result") }},
	{reply{413, bullmqhttp.CodeTooLarge}, "a large body", func() answer {
		return start(&bullmqhttp.Options{MaxBody: 5}, bullmqhttp.Route{}, nil).submit()
	}},
	{reply{431, bullmqhttp.CodeTooLarge}, "a long path", func() answer {
		return start(&bullmqhttp.Options{MaxHead: 5}, bullmqhttp.Route{}, nil).submit()
	}},
	{reply{415, bullmqhttp.CodeUnsupportedType}, "a body of another type", func() answer {
		return start(nil, bullmqhttp.Route{ContentTypes: []string{"text/plain"}}, nil).submit()
	}},
	{reply{422, bullmqhttp.CodeKeyReused}, "a key of another request", func() answer {
		s := start(nil, bullmqhttp.Route{}, nil)
		s.submit("Idempotency-Key", "a")
		return s.do("POST", "/reports/8", "", "Idempotency-Key", "a")
	}},
	{reply{429, bullmqhttp.CodeTooManyWaiting}, "a submit while too many jobs wait", func() answer {
		s := start(&bullmqhttp.Options{MaxWaiting: 1}, bullmqhttp.Route{}, nil)
		s.submit()
		return s.submit()
	}},
	{reply{500, bullmqhttp.CodeJobFailed}, "the result of a job that has failed", func() answer { s, location := finished(502); return s.get(location, "/result") }},
	{reply{500, bullmqhttp.CodeInternal}, "a submit whose Carry is not JSON", func() answer {
		return refusing(bullmqhttp.Options{Carry: func(*http.Request) (any, error) { return func() {}, nil }}).submit()
	}},
	{reply{503, bullmqhttp.CodeUnavailable}, "a submit while Redis is known to be unreachable", func() answer { s, _ := unreachable(true); return s.submit() }},
	{reply{503, bullmqhttp.CodeUnavailable}, "a status without Redis", func() answer { s, location := unreachable(false); return s.get(location, "") }},
	{reply{503, bullmqhttp.CodeUnavailable}, "a result without Redis", func() answer { s, location := unreachable(false); return s.get(location, "/result") }},
	{reply{503, bullmqhttp.CodeUnavailable}, "events without Redis", func() answer { s, location := unreachable(false); return s.get(location, "/events") }},
	{reply{503, bullmqhttp.CodeUnavailable}, "a cancellation without Redis", func() answer { s, location := unreachable(false); return s.do("DELETE", location, "") }},
	{reply{503, bullmqhttp.CodeTooManyHeld}, "events while too many requests are held", func() answer {
		s, location, _ := holding("/events", bullmqhttp.Route{})
		return s.get(location, "/events")
	}},
	{reply{503, bullmqhttp.CodeMaybeAdded}, "a submit whose outcome stays unknown", func() answer {
		proxy, options := proxied(redis)
		s := start(&bullmqhttp.Options{Timeout: time.Second}, bullmqhttp.Route{}, options)
		s.submit() // the script is loaded
		hangs := proxy.HangReply("EVALSHA")
		go func() {
			defer GinkgoRecover()
			Eventually(hangs).Should(BeClosed())
			Expect(proxy.Set(faultproxy.Faults{Refuse: true})).To(Succeed())
			proxy.CutAll()
		}()
		return s.submit()
	}},
}

var _ = Describe("The reply", func() {
	for _, c := range replies {
		It(strings.TrimSpace(fmt.Sprintf("%d %s", c.status, c.code))+" is that to "+c.to, func() {
			a := c.ask()
			Expect(a.status).To(Equal(c.status), a.body)
			if c.code == "" {
				Expect(a.header.Get("Content-Type")).NotTo(Equal("application/problem+json"))
				return
			}
			Expect(a.code()).To(Equal(c.code))
			var p bullmqhttp.Problem
			a.decode(&p)
			if retried := c.code == bullmqhttp.CodeNotFinished || c.status == 429 || c.status == 503; retried {
				Expect(strconv.Atoi(a.header.Get("Retry-After"))).To(BeNumerically(">=", 1))
			}
			Expect(p.Detail).NotTo(BeEmpty())
			Expect(a.header.Get("Cache-Control")).To(Equal("no-store"))
		})
	}

	It("is one of those above for each status and code of docs/http.md and of the package", func() {
		tested, statuses, codes := map[reply]bool{}, map[int]bool{}, map[string]bool{}
		for _, c := range replies {
			tested[c.reply], statuses[c.status], codes[c.code] = true, true, true
		}
		table, named := documented()
		Expect(len(table)).To(BeNumerically(">", 15))
		for _, r := range table {
			Expect(tested).To(HaveKey(r), "docs/http.md has it in its table of problems")
			delete(tested, r)
		}
		for r := range tested {
			Expect(r.code).To(BeElementOf("", "NO_TOKEN"), "docs/http.md lacks %v in its table of problems", r)
		}
		Expect(named).To(ContainElements(202, 204, 303, 304))
		for _, status := range named {
			Expect(statuses).To(HaveKey(status), "docs/http.md names it")
		}
		for name, code := range codesOf("problem.go") {
			Expect(codes).To(HaveKey(code), "problem.go has %s", name)
		}
	})

	It("of a Manager is tested for each code of the package, too", func() {
		files, err := filepath.Glob("manager*_test.go")
		Expect(err).NotTo(HaveOccurred())
		var text strings.Builder
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			text.Write(content)
		}
		for name, code := range codesOf("manager_errors.go") {
			Expect(text.String()).To(Or(ContainSubstring("bullmqhttp."+name), ContainSubstring(code)), "manager_errors.go has %s", name)
		}
	})
})

var (
	problemRow = regexp.MustCompile("(?m)^\\| ([0-9, ]+) \\| (`[A-Z_`, ]+`) \\|")
	number     = regexp.MustCompile(`\b[2-5]\d\d\b`)
	fenced     = regexp.MustCompile("(?s)\n```.*?\n```\n")
)

// documented returns the table of problems in docs/http.md, and all statuses that the page names as replies to clients.
func documented() (table []reply, named []int) {
	GinkgoHelper()
	page, err := os.ReadFile("../docs/http.md")
	Expect(err).NotTo(HaveOccurred())
	for section := range strings.SplitSeq(fenced.ReplaceAllString(string(page), "\n"), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		if title == "Problems" {
			for _, row := range problemRow.FindAllStringSubmatch(text, -1) {
				for status := range strings.SplitSeq(row[1], ",") {
					for code := range strings.SplitSeq(row[2], ",") {
						n, err := strconv.Atoi(strings.TrimSpace(status))
						Expect(err).NotTo(HaveOccurred())
						table = append(table, reply{n, strings.Trim(code, "` ")})
					}
				}
			}
		}
		if title == "How an attempt ends" || title == "Jobs for workers over HTTP" { // the replies of handlers, and those of a Manager
			continue
		}
		for _, found := range number.FindAllString(text, -1) {
			n, err := strconv.Atoi(found)
			Expect(err).NotTo(HaveOccurred())
			named = append(named, n)
		}
	}
	return table, named
}

// codesOf returns the constants in a file that are codes of problems, by their names.
func codesOf(file string) map[string]string {
	GinkgoHelper()
	parsed, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
	Expect(err).NotTo(HaveOccurred())
	codes := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		for i, name := range spec.Names {
			code, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			Expect(err).NotTo(HaveOccurred())
			codes[name.Name] = code
		}
		return true
	})
	Expect(codes).NotTo(BeEmpty())
	return codes
}
