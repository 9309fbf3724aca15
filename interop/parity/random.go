package parity

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Random creates a scenario from a seed. A rough model of the queues predicts which jobs run, so that most
// calls apply to suitable jobs. The remaining calls return errors, which are compared as well.
func Random(seed uint64) Scenario {
	g := &generator{
		Rand: rand.New(rand.NewPCG(seed, 1)), now: 1700000000000,
		queues: map[string]*model{"orders": {}, "parts": {}}, large: map[string]bool{},
	}
	g.step("clock", args{"now": g.now})
	for range 12 + g.IntN(30) {
		g.pick()
	}
	for _, queue := range []string{"orders", "parts"} {
		g.step("counts", args{"queue": queue})
		g.step("events", args{"queue": queue})
	}
	return Scenario{File: "random", Name: fmt.Sprint("seed ", seed), Steps: g.steps}
}

type args map[string]any

// model is the predicted state of a queue.
type model struct {
	count   int // value of the id counter
	known   []string
	waiting []string
	delayed []string
	active  []running
	ended   []string

	scheduled bool // has or had schedulers
}

type running struct{ id, token string }

type generator struct {
	*rand.Rand
	now    int64
	tokens int
	names  int
	queues map[string]*model
	large  map[string]bool // jobs with several children, and their ancestors
	steps  []Step

	measured bool // a worker with metrics has run
}

func (g *generator) step(op string, a args) {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	g.steps = append(g.steps, Step{Op: op, Args: text})
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func oneOf[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// anyID returns a job of the queue, and rarely an id that does not exist.
func (g *generator) anyID(m *model) string {
	if len(m.known) == 0 || g.chance(3) {
		return "nobody"
	}
	return oneOf(g, m.known...)
}

func (g *generator) options(m *model) args {
	o := args{}
	may := func(percent int, name string, value any) {
		if g.chance(percent) {
			o[name] = value
		}
	}
	may(20, "delay", oneOf(g, 1, 10, 1000, 60000, 0))
	may(20, "priority", oneOf(g, 1, 2, 5, 2097151, 0))
	may(10, "lifo", true)
	may(30, "attempts", oneOf(g, 1, 2, 3))
	if _, tried := o["attempts"]; tried {
		may(50, "backoff", oneOf[any](g, 100, args{"type": "fixed", "delay": 500}, args{"type": "exponential", "delay": 300}))
	}
	may(10, "removeOnComplete", oneOf[any](g, true, false, 1, 2, args{"age": 5}, args{"count": 1}, args{"age": 1, "limit": 1}))
	may(10, "removeOnFail", oneOf[any](g, true, false, 1, args{"age": 5}))
	may(5, "stackTraceLimit", oneOf(g, 0, 1, 2))
	may(5, "keepLogs", oneOf(g, 1, 2))
	if g.chance(20) {
		d := args{"id": oneOf(g, "d1", "d2")}
		for _, flag := range []string{"extend", "replace", "keepLastIfActive", "reschedule"} {
			if g.chance(25) {
				d[flag] = true
			}
		}
		if g.chance(50) {
			d["ttl"] = oneOf(g, 60000, 120000)
		}
		o["deduplication"] = d
	}
	if g.chance(15) {
		g.names++
		o["jobId"] = fmt.Sprint("own-", g.names)
		if g.chance(20) && len(m.known) > 0 {
			o["jobId"] = oneOf(g, m.known...)
		}
	}
	return o
}

// record applies an add to the model.
func (g *generator) record(m *model, o args) {
	m.count++
	id := fmt.Sprint(m.count)
	if own, ok := o["jobId"].(string); ok {
		id = own
	}
	if slices.Contains(m.known, id) {
		return
	}
	m.known = append(m.known, id)
	switch delay, _ := o["delay"].(int); {
	case delay > 0:
		m.delayed = append(m.delayed, id)
	case o["lifo"] == true:
		m.waiting = append([]string{id}, m.waiting...)
	default:
		m.waiting = append(m.waiting, id)
	}
}

func (g *generator) add(queue string, m *model) {
	o := g.options(m)
	// The id counter's own numbers are not allowed as custom ids.
	if id, ok := o["jobId"].(string); ok && id[0] < 'a' {
		delete(o, "jobId")
	}
	g.step("add", args{"queue": queue, "name": oneOf(g, "a", "b"), "data": g.data(), "opts": o})
	g.record(m, o)
}

func (g *generator) flow(queue string, depth int, root bool) args {
	m := g.queues[queue]
	o := g.options(m)
	g.names++
	o["jobId"] = fmt.Sprint("f-", g.names)
	delete(o, "deduplication")
	if !root && g.chance(60) {
		o[oneOf(g, "failParentOnFailure", "continueParentOnFailure", "ignoreDependencyOnFailure", "removeDependencyOnFailure")] = true
	}
	node := args{"name": "f", "queueName": queue, "data": args{"n": g.IntN(5)}, "opts": o}
	children := 0
	if depth > 0 {
		children = g.IntN(3)
	}
	if children == 0 {
		g.record(m, o)
		return node
	}
	m.known = append(m.known, o["jobId"].(string))
	var below []args
	for range children {
		below = append(below, g.flow(oneOf(g, "orders", "parts"), depth-1, false))
	}
	node["children"] = below
	for _, child := range below {
		if g.large[child["opts"].(args)["jobId"].(string)] {
			children++
		}
	}
	g.large[o["jobId"].(string)] = children > 1
	return node
}

func (g *generator) take(m *model, token string) {
	if len(m.waiting) == 0 {
		m.waiting, m.delayed = m.delayed, nil
	}
	if len(m.waiting) == 0 {
		return
	}
	m.active = append(m.active, running{m.waiting[0], token})
	m.waiting = m.waiting[1:]
}

// ends picks a job that is probably active and finishes it in the model.
func (g *generator) ends(m *model) (running, bool) {
	if len(m.active) == 0 {
		return running{}, false
	}
	i := g.IntN(len(m.active))
	job := m.active[i]
	m.active = slices.Delete(m.active, i, i+1)
	m.ended = append(m.ended, job.id)
	return job, true
}

func (g *generator) worker() args {
	w := args{}
	if g.chance(20) {
		w["name"] = "w"
	}
	if g.chance(15) {
		w["limiter"] = args{"max": oneOf(g, 1, 2, 5), "duration": 60000}
	}
	if g.chance(10) {
		w["metrics"], g.measured = args{"maxDataPoints": 5}, true
	}
	if g.chance(10) {
		w["removeOnComplete"] = oneOf[any](g, args{"count": 1}, args{"age": 3})
	}
	return w
}

func (g *generator) pick() {
	queue := oneOf(g, "orders", "orders", "parts")
	m := g.queues[queue]
	on := func(more args) args {
		more["queue"] = queue
		return more
	}
	if g.chance(20) {
		g.more(queue, m)
		return
	}
	switch n := g.IntN(100); {
	case n < 18:
		g.add(queue, m)
	case n < 20:
		var jobs []args
		for range 1 + g.IntN(4) {
			o := g.options(m)
			delete(o, "jobId")
			jobs = append(jobs, args{"name": "c", "data": args{}, "opts": o})
			g.record(m, o)
		}
		g.step("addBulk", on(args{"jobs": jobs}))
	case n < 27:
		g.step("addFlow", args{"flow": g.flow(queue, 2, true)})
	case n < 45:
		g.tokens++
		token := fmt.Sprint("t", g.tokens)
		g.step("fetch", on(args{"token": token, "worker": g.worker()}))
		g.take(m, token)
	case n < 57:
		if job, ok := g.ends(m); ok {
			fetch := g.chance(40)
			g.step("complete", on(args{"id": job.id, "token": job.token, "returnvalue": oneOf[any](g, 1, "x", nil, args{"a": 1}), "fetchNext": fetch}))
			if fetch {
				g.take(m, job.token)
			}
		}
	case n < 65:
		if job, ok := g.ends(m); ok {
			fetch := g.chance(30)
			g.step("fail", on(args{"id": job.id, "token": job.token, "message": oneOf(g, "boom", "", `{"a":1}`), "unrecoverable": g.chance(20), "fetchNext": fetch}))
			if fetch {
				g.take(m, job.token)
			}
		}
	case n < 67:
		if job, ok := g.ends(m); ok {
			g.step("moveToDelayed", on(args{"id": job.id, "token": job.token, "timestamp": g.now + int64(g.IntN(2000))}))
		}
	case n < 69:
		if job, ok := g.ends(m); ok {
			m.waiting = append([]string{job.id}, m.waiting...)
			g.step("moveToWait", on(args{"id": job.id, "token": job.token}))
		}
	case n < 70:
		if job, ok := g.ends(m); ok {
			g.step("moveToWaitingChildren", on(args{"id": job.id, "token": job.token}))
		}
	case n < 73:
		g.step("retry", on(args{"id": g.anyID(m), "state": oneOf(g, "failed", "failed", "completed"),
			"opts": args{"resetAttemptsMade": g.chance(50), "resetAttemptsStarted": g.chance(50)}}))
	case n < 75:
		g.step("promote", on(args{"id": g.anyID(m)}))
	case n < 77:
		g.step("changePriority", on(args{"id": g.anyID(m), "priority": oneOf(g, 0, 1, 7), "lifo": g.chance(30)}))
	case n < 78:
		g.step("changeDelay", on(args{"id": g.anyID(m), "delay": oneOf(g, 0, 50, 5000)}))
	case n < 81:
		// Children are read from a set, so the order in which several are removed is random.
		if id := g.anyID(m); !g.large[id] {
			g.step("remove", on(args{"id": id, "removeChildren": g.chance(70)}))
		}
	case n < 83:
		g.step(oneOf(g, "pause", "resume"), on(args{}))
	case n < 84:
		// Node's drain trims wait by number and may drop a scheduler's job between others. Ours does not.
		if !m.scheduled {
			g.step("drain", on(args{"delayed": g.chance(30)}))
		}
	case n < 86:
		g.step("clean", on(args{"grace": oneOf(g, 0, 10, 1000), "limit": oneOf(g, 0, 1, 2), "type": oneOf(g, "completed", "failed", "wait", "delayed", "prioritized", "active", "paused")}))
	case n < 88:
		g.step("retryJobs", on(args{"state": oneOf(g, "failed", "completed"), "count": oneOf(g, 1, 1000)}))
	case n < 89:
		g.step("promoteJobs", on(args{"count": 100}))
	case n < 90:
		g.steps = append(g.steps, Step{Op: "$redis", Redis: []string{"DEL", "bull:" + queue + ":stalled-check"}})
		g.step("stalled", on(args{"maxStalledCount": oneOf(g, 0, 1)}))
	case n < 91:
		if id := g.anyID(m); !g.large[id] {
			g.step("removeUnprocessedChildren", on(args{"id": id}))
		}
	case n < 92:
		g.step("removeChildDependency", on(args{"id": g.anyID(m)}))
	case n < 93:
		g.step(oneOf(g, "setGlobalConcurrency", "removeGlobalConcurrency"), on(args{}))
		if last := &g.steps[len(g.steps)-1]; last.Op == "setGlobalConcurrency" {
			g.steps = g.steps[:len(g.steps)-1]
			g.step("setGlobalConcurrency", on(args{"concurrency": 1 + g.IntN(2)}))
		}
	case n < 94:
		if g.chance(50) {
			g.step("setGlobalRateLimit", on(args{"max": 2, "duration": 60000}))
		} else {
			g.step("removeGlobalRateLimit", on(args{}))
		}
	case n < 95:
		m.scheduled = true
		id := oneOf(g, "tick", "tock")
		g.step("upsertScheduler", on(args{"id": id, "repeat": g.repeat(), "template": g.template(id)}))
	case n < 96:
		g.step("removeScheduler", on(args{"id": oneOf(g, "tick", "tock")}))
	case n < 97:
		g.step("progress", on(args{"id": g.anyID(m), "progress": oneOf[any](g, 5, "half", args{"a": 1})}))
	case n < 98:
		g.step("log", on(args{"id": g.anyID(m), "row": "row"}))
	case n < 99:
		g.step("jobs", on(args{"types": []string{oneOf(g, "waiting", "completed", "failed", "delayed", "prioritized", "active")}}))
	default:
		g.step("removeDeduplicationKey", on(args{"dedupId": oneOf(g, "d1", "d2")}))
	}
	if g.chance(40) {
		g.now += int64(oneOf(g, 1, 7, 400, 3000, 61000))
		g.step("clock", args{"now": g.now})
	}
}

// JSON returns the scenario in the format of scenario files.
func (s Scenario) JSON() string {
	var steps []any
	for _, step := range s.Steps {
		if step.Redis != nil {
			steps = append(steps, []any{step.Op, step.Redis})
			continue
		}
		steps = append(steps, []any{step.Op, step.Args})
	}
	text, err := json.Marshal(map[string]any{"name": s.Name, "steps": steps})
	if err != nil {
		panic(err)
	}
	return string(text)
}
