package scripts

import (
	"cmp"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A command is one Lua file in this directory. Four directives, each a comment line
// that starts with --@, define how it is composed:
//
//	--@args base now token ...   the names of the elements of ARGV, in order; ... stands for further elements,
//	                             which begin at the index rest
//	--@keys wait active          the keys of the queue that the command uses, by their suffix; each has a name,
//	                             such as waitKey
//	--@use events lock           the parts that the command uses; each is included once, after the parts that the
//	                             part itself uses
//	--@queues wait active        the command concerns several queues. queues[n] is the base of the nth queue.
//	                             useQueue(n) returns this base, and makes the names of keys stand for the keys of
//	                             that queue. It makes the listed keys at once, because the command uses them for
//	                             each queue, and other keys when they are used.
//
// A line that ends with --@v5 or --@v6 belongs to that dialect only. call and try are
// redis.call and redis.pcall.
//
// A part is in parts/, contains only functions, and has the directives keys and use.
// Functions that a command does not reach are left out. The keys of a command and
// of all its parts are declared as KEYS. A command of several queues declares their bases
// instead, and the key meta of the first queue.
//
//go:embed *.lua parts/*.lua
var sources embed.FS

// Dialect is the major version of BullMQ whose keys and events a command writes.
type Dialect int

// The dialects.
const (
	V6 Dialect = iota
	V5
)

var dialects = map[Dialect]string{V6: "v6", V5: "v5"}

// command is a script and its arguments.
type command struct {
	name    string
	args    []string // names, in the order of ARGV
	rest    bool     // more arguments may follow
	several bool     // it concerns several queues
	forms   [2]form  // by dialect
}

// form is the composed script of a command in one dialect.
type form struct {
	keys []string // suffixes, in the order of KEYS
	text string
	sha  string
}

var commands = map[string]*command{}

// load composes a command when the package is initialized. It panics if a file of this
// directory is invalid, which every test would detect.
func load(name string) *command {
	c := &command{name: name}
	for dialect := range dialects {
		c.compose(dialect)
	}
	commands[name] = c
	return c
}

func (c *command) compose(dialect Dialect) {
	own := read(c.name+".lua", dialect)
	f := form{keys: slices.Clone(own.queues)}
	var available []function
	seen := map[string]bool{}
	var use func(file *luaFile)
	use = func(file *luaFile) {
		for _, name := range file.use {
			if !seen[name] {
				seen[name] = true
				part := partOf(name, dialect)
				use(&part.luaFile)
				available = append(available, part.functions...)
			}
		}
		for _, key := range file.keys {
			if !slices.Contains(f.keys, key) {
				f.keys = append(f.keys, key)
			}
		}
	}
	use(own)

	c.args, c.rest = own.args, false
	if n := len(c.args); n > 0 && c.args[n-1] == "..." {
		c.args, c.rest = c.args[:n-1], true
	}
	c.several = own.several
	var text strings.Builder
	text.WriteString("local call, try = redis.call, redis.pcall\n")
	if c.several {
		text.WriteString(f.perQueue(len(own.queues)))
	}
	for i, arg := range c.args {
		fmt.Fprintf(&text, "local %s = ARGV[%d]\n", arg, i+1)
	}
	if c.rest {
		fmt.Fprintf(&text, "local rest = %d\n", len(c.args)+1)
	}
	for _, part := range reached(available, own.body) {
		text.WriteString(part.text)
	}
	text.WriteString(own.body)
	text.WriteByte('\n')
	f.text = f.resolve(text.String())
	sum := sha1.Sum([]byte(f.text)) // by which Redis identifies scripts
	f.sha = hex.EncodeToString(sum[:])
	c.forms[dialect] = f
}

// perQueue returns the text that declares KEYS as a local variable, which holds the keys of
// one of several queues. The functions of parts then refer to this variable, so they need no
// change. Making a key costs about as much as a small command. So only the first keys are made
// at once, and the other keys when they are used.
func (f *form) perQueue(first int) string {
	if len(f.keys) == 0 {
		return "local queues = KEYS\n"
	}
	suffixes, keys := make([]string, len(f.keys)), make([]string, len(f.keys))
	for i, key := range f.keys {
		suffixes[i], keys[i] = "'"+key+"'", "nil"
		if i < first {
			keys[i] = "base .. '" + key + "'"
		}
	}
	return "local queues, keysOf, current, KEYS = KEYS, {}, nil, nil\n" +
		"local suffixes = { " + strings.Join(suffixes, ", ") + " }\n" +
		"local others = { __index = function(keys, i)\n" +
		"  local key = current .. suffixes[i]\n" +
		"  keys[i] = key\n" +
		"  return key\n" +
		"end }\n" +
		"local function useQueue(n)\n" +
		"  local base = queues[n]\n" +
		"  current, KEYS = base, keysOf[n]\n" +
		"  if not KEYS then\n" +
		"    KEYS = setmetatable({ " + strings.Join(keys, ", ") + " }, others)\n" +
		"    keysOf[n] = KEYS\n" +
		"  end\n" +
		"  return base\n" +
		"end\n"
}

// resolve replaces the name of each key by its element of KEYS. Local variables would be
// slower, because each run of the script would bind them to the functions that use them.
func (f *form) resolve(text string) string {
	at := make(map[string]string, len(f.keys))
	for i, key := range f.keys {
		at[nameOf(key)] = fmt.Sprintf("KEYS[%d]", i+1)
	}
	var resolved strings.Builder
	eachWord(text, func(between, word string) {
		resolved.WriteString(between)
		resolved.WriteString(cmp.Or(at[word], word))
	})
	return resolved.String()
}

// part is a parsed file of parts/.
type part struct {
	luaFile
	functions []function
}

// parts are the parts that have been read. Most commands share them.
var parts = map[Dialect]map[string]*part{V6: {}, V5: {}}

func partOf(name string, dialect Dialect) *part {
	if parts[dialect][name] == nil {
		file := read(path.Join("parts", name+".lua"), dialect)
		parts[dialect][name] = &part{*file, functionsOf(file.body)}
	}
	return parts[dialect][name]
}

// luaFile is a parsed file: its directives, and its text without comment lines. The server
// need not store comments.
type luaFile struct {
	args, keys, use []string
	several         bool
	queues          []string
	body            string
}

func read(file string, dialect Dialect) *luaFile {
	raw, err := sources.ReadFile(file)
	if err != nil {
		panic(fmt.Sprintf("bullmq/scripts: %v", err))
	}
	return parse(file, string(raw), dialect)
}

func parse(file, text string, dialect Dialect) *luaFile {
	if start := strings.Index(text, "--[["); start >= 0 {
		text = text[:start] + text[start+strings.Index(text[start:], "]]")+2:]
	}
	s := &luaFile{}
	var body []string
	for line := range strings.Lines(text) {
		line, mine := forDialect(line, dialect)
		if !mine {
			continue
		}
		trimmed := strings.TrimSpace(line)
		if directive, ok := strings.CutPrefix(trimmed, "--@"); ok {
			words := strings.Fields(directive)
			switch words[0] {
			case "args":
				s.args = words[1:]
			case "keys":
				s.keys = append(s.keys, words[1:]...)
			case "use":
				s.use = append(s.use, words[1:]...)
			case "queues":
				s.several, s.queues = true, words[1:]
			default:
				panic(fmt.Sprintf("bullmq/scripts: %s: unknown directive %q", file, trimmed))
			}
			continue
		}
		if trimmed == "" || strings.HasPrefix(trimmed, "--") {
			continue
		}
		body = append(body, line)
	}
	s.body = strings.Join(body, "\n")
	return s
}

// forDialect removes the mark of a dialect from the end of a line, and reports whether
// the line belongs to the given dialect.
func forDialect(line string, dialect Dialect) (string, bool) {
	line = strings.TrimRight(line, " \n")
	for d, name := range dialects {
		if rest, ok := strings.CutSuffix(line, "--@"+name); ok {
			return strings.TrimRight(rest, " "), d == dialect
		}
	}
	return line, true
}

// nameOf returns the name of a key in Lua: waitingChildrenKey for waiting-children.
func nameOf(suffix string) string {
	words := strings.FieldsFunc(suffix, func(r rune) bool { return r == '-' || r == ':' })
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "") + "Key"
}
