package scripts

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = ginkgo.Describe("A Lua file", func() {
	ginkgo.It("is parsed into its directives and its text without comments", func() {
		f := parse("paint.lua", `--[[ paint: paints.
     Returns: 0. ]]
--@args base jobId ...
--@keys wait waiting-children
--@keys metrics:completed
--@use events lock
-- why this is so
local one = 1

if one then
  return 0 -- kept, since it follows code
end
`, V6)
		Expect(f.args).To(Equal([]string{"base", "jobId", "..."}))
		Expect(f.keys).To(Equal([]string{"wait", "waiting-children", "metrics:completed"}))
		Expect(f.use).To(Equal([]string{"events", "lock"}))
		Expect(f.body).To(Equal("local one = 1\nif one then\n  return 0 -- kept, since it follows code\nend"))
	})

	ginkgo.It("can contain lines and directives for one dialect only", func() {
		text := "--@keys wait\n--@keys paused --@v5\nlocal a = 1 --@v6\nlocal a = 2 --@v5\nreturn a\n"
		Expect(parse("x.lua", text, V6)).To(Equal(&luaFile{keys: []string{"wait"}, body: "local a = 1\nreturn a"}))
		Expect(parse("x.lua", text, V5)).To(Equal(&luaFile{keys: []string{"wait", "paused"}, body: "local a = 2\nreturn a"}))
	})

	ginkgo.It("can concern several queues, with keys that it uses for each of them", func() {
		Expect(parse("x.lua", "--@queues wait active\nreturn 1\n", V6)).To(Equal(&luaFile{several: true, queues: []string{"wait", "active"}, body: "return 1"}))
		Expect(parse("x.lua", "--@queues\nreturn 1\n", V6)).To(Equal(&luaFile{several: true, queues: []string{}, body: "return 1"}))
	})

	ginkgo.It("needs no directives", func() {
		Expect(parse("x.lua", "return 1\n", V6)).To(Equal(&luaFile{body: "return 1"}))
	})

	ginkgo.It("is rejected if it has an unknown directive", func() {
		Expect(func() { parse("paint.lua", "--@keys wait\n--@include events\n", V6) }).
			To(PanicWith(And(ContainSubstring("paint.lua"), ContainSubstring(`unknown directive "--@include events"`))))
	})

	ginkgo.It("is named in the error if it does not exist", func() {
		Expect(func() { read("parts/paint.lua", V6) }).To(PanicWith(ContainSubstring("parts/paint.lua")))
	})
})

var _ = ginkgo.Describe("A composed command", func() {
	ginkgo.It("consists of its arguments, each part once after those it uses, and its own text", func() {
		c := &command{name: "moveToDelayed"}
		c.compose(V6)
		text := c.forms[V6].text
		Expect(c.args).To(Equal([]string{"base", "now", "jobId", "token", "delay", "free", "fetch", "lockMs", "name", "limitMax", "limitMs"}))
		Expect(c.rest).To(BeTrue())
		lines := strings.Split(text, "\n")
		Expect(lines[0]).To(Equal("local call, try = redis.call, redis.pcall"))
		Expect(lines[1]).To(Equal("local base = ARGV[1]"))
		for i, key := range c.forms[V6].keys {
			Expect(text).NotTo(MatchRegexp(`\b` + nameOf(key) + `\b`))
			Expect(text).To(ContainSubstring("KEYS[%d]", i+1), key)
		}
		Expect(text).To(ContainSubstring("\nlocal token = ARGV[4]\n"))
		Expect(text).To(ContainSubstring("\nlocal rest = 12\n"))
		Expect(strings.Count(text, "local function signalDelayed(")).To(Equal(1))
		Expect(strings.Index(text, "local function delayedScore(")).To(BeNumerically(">", strings.Index(text, "local function signalDelayed(")))
		Expect(strings.Index(text, "local score, due = delayedScore(")).To(BeNumerically(">", strings.Index(text, "local function delayedScore(")))
		Expect(text).NotTo(ContainSubstring("--[["))
	})

	ginkgo.DescribeTable("names a key after its suffix", func(suffix, want string) { Expect(nameOf(suffix)).To(Equal(want)) },
		ginkgo.Entry(nil, "wait", "waitKey"),
		ginkgo.Entry(nil, "waiting-children", "waitingChildrenKey"),
		ginkgo.Entry(nil, "metrics:completed:data", "metricsCompletedDataKey"),
	)

	ginkgo.It("contains only the functions that it calls", func() {
		functions := functionsOf("local function add(n)\n  return n + 1\nend\n" +
			"local function unused()\nend\n" +
			"local tens = { 10 }\nlocal function times(n)\n  return add(n) * tens[1]\nend")
		var names []string
		for _, f := range reached(functions, "return times(1)") {
			names = append(names, f.name)
		}
		Expect(names).To(Equal([]string{"add", "times"}))
	})

	ginkgo.It("is rejected if a part contains more than functions", func() {
		Expect(func() { functionsOf("local function add(n)\n  return n + 1\nend\nadd(1)") }).
			To(PanicWith(ContainSubstring("more than functions: add(1)")))
	})

	ginkgo.It("has the hash under which Redis stores it", func(ctx context.Context) {
		for name, c := range commands {
			for _, f := range c.forms {
				Expect(client.Do(ctx, client.B().ScriptLoad().Script(f.text).Build()).ToString()).To(Equal(f.sha), name)
			}
		}
	})

	ginkgo.It("accepts no more arguments than it names", func() {
		Expect(func() { pause.check([]string{"base", "more"}) }).To(PanicWith(ContainSubstring("pause takes 1 arguments, got 2")))
		Expect(func() { extendLocks.check(make([]string, 500)) }).NotTo(Panic())
	})

	ginkgo.It("has a Go method, and each part is used by a command", func() {
		files, err := fs.Glob(sources, "*.lua")
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, file := range files {
			names = append(names, strings.TrimSuffix(file, ".lua"))
		}
		Expect(slices.Sorted(maps.Keys(commands))).To(Equal(names))

		used := map[string]bool{}
		parts, err := fs.Glob(sources, "parts/*.lua")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range append(files, parts...) {
			for dialect := range dialects {
				for _, part := range read(file, dialect).use {
					used[part] = true
				}
			}
		}
		for _, file := range parts {
			Expect(used).To(HaveKey(strings.TrimSuffix(path.Base(file), ".lua")))
		}
	})

	ginkgo.It("states its name, its arguments and its reply in its header", func() {
		for name := range commands {
			text, err := fs.ReadFile(sources, name+".lua")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(HavePrefix("--[[ " + name + ": "))
			Expect(string(text)).To(And(ContainSubstring(" Arguments: "), ContainSubstring(" Returns: ")), name)
		}
	})

	ginkgo.It("uses no commands or libraries that some servers lack or forbid", func() {
		for name, c := range commands {
			for _, foreign := range []string{"cmsgpack", "'KEYS'", "'SCAN'", " call('TIME')", "redis.call('TIME')", "math.random", "struct.", "bit."} {
				for _, f := range c.forms {
					Expect(f.text).NotTo(ContainSubstring(foreign), name)
				}
			}
		}
	})

	ginkgo.It("declares each key of the queue that it touches", func() {
		known := map[string]bool{}
		for _, c := range commands {
			for _, f := range c.forms {
				for _, key := range f.keys {
					known[nameOf(key)] = true
				}
			}
		}
		words := regexp.MustCompile(`\w+Key\b`)
		for name, c := range commands {
			for _, f := range c.forms {
				for _, word := range words.FindAllString(f.text, -1) {
					if known[word] {
						Expect(f.text).To(ContainSubstring("local "+word+" = KEYS["), name)
					}
				}
			}
		}
	})
})
