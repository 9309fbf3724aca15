package bullmq

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// Target states which workers may run a job. The empty Target is any worker.
//
// Jobs with the same requirements are in a queue of their own, their route. Its name is
// the name of the queue, an at sign, and the requirements: orders@gpu+region=us-east.
// docs/routing.md describes routes.
//
// All texts consist of ASCII letters, digits, dots, hyphens and underscores. Upper and
// lower case are the same.
type Target struct {
	// Capabilities are names of what the worker must have, such as "gpu".
	Capabilities []string
	// Stack is the kind of program that the worker must be, such as "node".
	Stack string
	// Region is where the worker must run, such as "us-east".
	Region string
	// Server is the name of the only worker that may run the job. The other
	// requirements do not count then.
	Server string
	// Mode selects whether the worker must satisfy all requirements or any of them.
	// Defaults to [MatchAll].
	Mode TargetMode
	// Fallback is the target of the job once it has been ready for the time of After while
	// no worker served its route. An empty Fallback is any worker of the queue. It may have a
	// Fallback in turn. It must have other requirements than the target.
	// Defaults to nil: the job waits for a worker.
	Fallback *Target
	// After is how long the job waits before Fallback applies, in whole milliseconds. It
	// counts from when the job is ready to run, and a job that ran before, from its last start.
	// Defaults to 0, at once.
	After time.Duration
	// RequireWorker refuses the add with [ErrNoWorker] if no worker satisfies the
	// requirements at present. A list of workers that is up to a second old decides. The option
	// is not stored with the job.
	RequireWorker bool

	rest    rest  // the object from which it was parsed
	invalid error // why that can't be used
}

// TargetMode selects how many requirements of a [Target] a worker must satisfy.
type TargetMode string

// The modes of a [Target].
const (
	MatchAll TargetMode = "all" // the worker satisfies all requirements
	MatchAny TargetMode = "any" // the worker satisfies at least one requirement
)

// Route returns the name of the queue that has the jobs of a queue with this target:
// queueName, an at sign and the requirements. The requirements are in lower case, sorted,
// and joined by + for [MatchAll] or | for [MatchAny]. For the empty Target it is
// queueName itself.
//
// A worker of BullMQ that serves the route is given this name.
func (t Target) Route(queueName string) (string, error) {
	needs, err := t.needs()
	if err != nil {
		return "", fmt.Errorf("bullmq: a target of a job of %s: %w", queueName, err)
	}
	if len(needs) == 0 {
		return queueName, nil
	}
	return queueName + "@" + strings.Join(needs, t.separator()), nil
}

func (t *Target) separator() string {
	if t.Mode == MatchAny {
		return "|"
	}
	return "+"
}

const (
	stackNeed  = "stack="
	regionNeed = "region="
	serverNeed = "server="

	// maximumRoute is the maximum length of the requirements in the name of a route.
	maximumRoute = 200
)

// needs returns the requirements as they are in the name of the route.
func (t *Target) needs() ([]string, error) {
	switch {
	case t.invalid != nil:
		return nil, t.invalid
	case t.Mode != "" && t.Mode != MatchAll && t.Mode != MatchAny:
		return nil, fmt.Errorf("the mode %.80q is neither %q nor %q", t.Mode, MatchAll, MatchAny)
	case t.Server != "":
		return traitTexts(t.Server, "", "", nil)
	}
	needs, err := traitTexts("", t.Stack, t.Region, t.Capabilities)
	switch {
	case err != nil:
		return nil, err
	case len(needs) == 1 && needs[0] == "x":
		return nil, errors.New(`the capability "x" can't be the only requirement, since @x marks the keys of this SDK; rename it`)
	case len(strings.Join(needs, "+")) > maximumRoute:
		return nil, fmt.Errorf("its requirements have more than %d characters together", maximumRoute)
	}
	return needs, nil
}

// traitTexts returns the texts of traits in the names of routes, sorted.
func traitTexts(server, stack, region string, capabilities []string) ([]string, error) {
	texts := make([]string, 0, len(capabilities)+3)
	add := func(what, prefix, value string) error {
		if err := checkTrait(what, value); err != nil {
			return err
		}
		texts = append(texts, prefix+strings.ToLower(value))
		return nil
	}
	for _, capability := range capabilities {
		if err := add("capability", "", capability); err != nil {
			return nil, err
		}
	}
	for _, trait := range []struct{ what, prefix, value string }{
		{"stack", stackNeed, stack}, {"region", regionNeed, region}, {"server", serverNeed, server},
	} {
		if trait.value == "" {
			continue
		}
		if err := add(trait.what, trait.prefix, trait.value); err != nil {
			return nil, err
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts), nil
}

// checkTrait returns an error for a text that can't be part of the name of a route.
func checkTrait(what, text string) error {
	odd := strings.IndexFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
	})
	switch {
	case text == "":
		return fmt.Errorf("a %s is empty", what)
	case odd >= 0:
		return fmt.Errorf("the %s %.80q has a character other than ASCII letters, digits, dots, hyphens and underscores", what, text)
	case len(text) > maximumRoute:
		return fmt.Errorf("the %s %.80q has more than %d characters", what, text, maximumRoute)
	}
	return nil
}

// parseRoute returns the queue and the target of a route. It returns false if name is not
// that of a route.
func parseRoute(name string) (queueName string, target Target, ok bool) {
	at := strings.LastIndexByte(name, '@')
	if at <= 0 {
		return "", Target{}, false
	}
	queueName, text := name[:at], name[at+1:]
	needs := strings.Split(text, "+")
	if strings.Contains(text, "|") {
		target.Mode, needs = MatchAny, strings.Split(text, "|")
	}
	for _, need := range needs {
		for _, trait := range []struct {
			prefix string
			value  *string
		}{{stackNeed, &target.Stack}, {regionNeed, &target.Region}, {serverNeed, &target.Server}} {
			if value, found := strings.CutPrefix(need, trait.prefix); found {
				*trait.value, need = value, ""
				break
			}
		}
		if need != "" {
			target.Capabilities = append(target.Capabilities, need)
		}
	}
	// Only the name that Route returns is that of a route.
	if same, err := target.Route(queueName); err != nil || same != name {
		return "", Target{}, false
	}
	return queueName, target, true
}

// traits are the requirements that a worker satisfies, as they are in the names of routes.
type traits map[string]bool

func newTraits(server, stack, region string, capabilities []string) (traits, error) {
	texts, err := traitTexts(server, stack, region, capabilities)
	if err != nil {
		return nil, err
	}
	has := make(traits, len(texts))
	for _, text := range texts {
		has[text] = true
	}
	return has, nil
}

// satisfy reports whether a worker with these traits may run a job with a target.
func (has traits) satisfy(t Target) bool {
	needs, err := t.needs()
	if err != nil {
		return false
	}
	if t.Mode == MatchAny && len(needs) > 0 {
		return slices.ContainsFunc(needs, func(need string) bool { return has[need] })
	}
	return !slices.ContainsFunc(needs, func(need string) bool { return !has[need] })
}

// check returns an error for a target that has no route.
func (t *Target) check() error {
	if t == nil {
		return nil
	}
	depth, before := 0, ""
	for next, name := t, "Target"; next != nil; next, name, depth = next.Fallback, name+".Fallback", depth+1 {
		needs, err := next.needs()
		text := strings.Join(needs, next.separator())
		if err == nil && next.rest == nil {
			err = checkMillis("After", next.After, 0)
			if err == nil && depth > 0 && text == before {
				err = errors.New("it has the same requirements as the target before it, so the job would stay in its route; remove it")
			}
		}
		before = text
		if err == nil && depth > maximumFallbacks {
			return fmt.Errorf("Target has more than %d fallbacks", maximumFallbacks)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// maximumFallbacks is the maximum number of fallbacks that follow each other.
const maximumFallbacks = 10

// writeTarget returns the target as an object, or nil.
func writeTarget(o *JobOptions) any {
	if o.Target == nil {
		return nil
	}
	if fields := o.Target.fields(); len(fields) > 0 {
		return fields
	}
	return nil
}

// object returns the target as a member of another one.
func (t *Target) object() map[string]any {
	if t == nil {
		return nil
	}
	return t.fields()
}

func (t *Target) fields() map[string]any {
	fields := t.rest.fields()
	set := func(name string, is bool, value any) {
		if is {
			fields[name] = value
		} else if t.invalid == nil { // cleared since it was parsed
			delete(fields, name)
		}
	}
	set("capabilities", len(t.Capabilities) > 0, t.Capabilities)
	set("stack", t.Stack != "", t.Stack)
	set("region", t.Region != "", t.Region)
	set("server", t.Server != "", t.Server)
	set("mode", t.Mode != "", t.Mode)
	set("fallback", t.Fallback != nil, t.Fallback.object())
	set("after", t.After != 0, json.RawMessage(wire.FormatMillis(t.After)))
	return fields
}

// readTarget reads the option target. An object without any member of a Target is another
// program's own option.
func readTarget(o *JobOptions, v any) bool {
	t, known := parseTarget(v)
	if known {
		o.Target = t
	}
	return known
}

// parseTarget returns the target in an object, and whether it has any member of a Target.
func parseTarget(v any) (t *Target, known bool) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	t = &Target{rest: fields}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		read, value := targetMembers[name], fields[name]
		if read == nil {
			continue
		}
		known = true
		if value != nil && !read(t, value) {
			t.invalid = cmp.Or(t.invalid, fmt.Errorf("its %s can't be read: %.80q", name, fmt.Sprint(value)))
		}
	}
	return t, known
}

// targetMembers read the members of the option target.
var targetMembers = map[string]func(t *Target, value any) bool{
	"capabilities": func(t *Target, value any) bool { return readTexts(value, &t.Capabilities) },
	"stack":        func(t *Target, value any) bool { return readText(value, &t.Stack) },
	"region":       func(t *Target, value any) bool { return readText(value, &t.Region) },
	"server":       func(t *Target, value any) bool { return readText(value, &t.Server) },
	"mode": func(t *Target, value any) bool {
		var text string
		read := readText(value, &text)
		t.Mode = TargetMode(text)
		return read
	},
	"after": func(t *Target, value any) bool { return readMillis(value, &t.After) },
}

func init() { // not above, since it refers to targetMembers
	targetMembers["fallback"] = func(t *Target, value any) bool {
		t.Fallback, _ = parseTarget(value)
		return t.Fallback != nil
	}
}

func readTexts(value any, target *[]string) bool {
	list, ok := value.([]any)
	if !ok {
		return false
	}
	texts := make([]string, len(list))
	for i := range list {
		if !readText(list[i], &texts[i]) {
			return false
		}
	}
	if len(texts) > 0 {
		*target = texts
	}
	return true
}
