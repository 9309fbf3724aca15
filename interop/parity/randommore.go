package parity

import "fmt"

// more adds less frequent calls: reads, locks, limits, and whole workers.
func (g *generator) more(queue string, m *model) {
	on := func(more args) args {
		more["queue"] = queue
		return more
	}
	state := func() string {
		return oneOf(g, "waiting", "wait", "completed", "failed", "delayed", "prioritized", "active", "paused", "waiting-children")
	}
	id := g.anyID(m)
	token := "stranger"
	if len(m.active) > 0 && g.chance(80) {
		job := oneOf(g, m.active...)
		id, token = job.id, job.token
	}
	switch g.IntN(34) {
	case 0:
		g.step("updateData", on(args{"id": id, "data": g.data()}))
	case 1:
		g.step("clearLogs", on(args{"id": id, "keep": g.IntN(3)}))
	case 2:
		g.step("logs", on(args{"id": id, "start": g.IntN(2), "end": g.IntN(4) - 1, "asc": g.chance(50)}))
	case 3:
		g.step("extendLock", on(args{"id": id, "token": token, "duration": 60000}))
	case 4:
		g.step("extendLocks", on(args{"ids": []string{id, "nobody"}, "tokens": []string{token, "x"}, "duration": 60000}))
	case 5:
		g.step("rateLimit", on(args{"ms": 60000}))
	case 6:
		g.step("removeRateLimitKey", on(args{}))
	case 7:
		g.step("rateLimitTtl", on(args{"max": g.IntN(4)}))
		g.steps[len(g.steps)-1].AnyResult = true // depends on the moment
	case 8:
		g.step("trimEvents", on(args{"max": oneOf(g, 0, 1, 5)}))
	case 9, 10:
		g.step("jobs", on(args{"types": []string{state(), state()}, "start": g.IntN(2), "end": g.IntN(5) - 1, "asc": g.chance(50)}))
	case 11:
		g.step("countsPerPriority", on(args{"priorities": []int{0, 1, 2, 2097151}}))
	case 12:
		g.step("metrics", on(args{"type": oneOf(g, "completed", "failed"), "start": 0, "end": -1}))
	case 13, 14:
		g.step(oneOf(g, "childrenValues", "ignoredChildrenFailures", "dependencies", "dependenciesCount"), on(args{"id": id}))
	case 15:
		g.step("flowTree", on(args{"id": id}))
	case 16:
		g.step(oneOf(g, "isMaxed", "isPaused", "globalConcurrency", "count", "schedulersCount"), on(args{}))
	case 17:
		g.step("schedulers", on(args{"start": 0, "end": -1, "asc": g.chance(50)}))
	case 18:
		g.step("scheduler", on(args{"id": oneOf(g, "tick", "tock", "nobody")}))
	case 19:
		g.step("deduplicationJobId", on(args{"dedupId": oneOf(g, "d1", "d2")}))
	case 20:
		g.step(oneOf(g, "state", "job"), on(args{"id": id}))
	case 21:
		g.child(queue, m)
	case 22:
		g.step("complete", on(args{"id": id, "token": "stranger", "returnvalue": 1}))
	case 23:
		g.step("addFlowBulk", args{"flows": []args{g.flow(queue, 1, true), g.flow(oneOf(g, "orders", "parts"), 1, true)}})
	case 24:
		g.step("retryJobs", on(args{"state": oneOf(g, "failed", "completed"), "count": oneOf(g, 1, 1000), "timestamp": g.now - int64(g.IntN(2000))}))
	case 25:
		if g.chance(30) {
			g.step("obliterate", on(args{"force": g.chance(70), "count": oneOf(g, 1, 1000)}))
		}
	case 26:
		g.orphans(queue)
	case 27, 28, 29, 30, 31, 32:
		g.spoil(queue, id)
	default:
		g.work(queue, m)
	}
}

// orphans creates jobs in no state and removes them. Node's version treats the counters of failed jobs as a
// job; ours does not.
func (g *generator) orphans(queue string) {
	if g.measured {
		return
	}
	g.steps = append(g.steps, Step{Op: "$redis", Redis: []string{"DEL", "bull:" + queue + ":" + oneOf(g, "completed", "failed", "nothing")}})
	g.step("removeOrphanedJobs", args{"queue": queue, "count": 1000, "limit": 0})
}

// child adds a child to a job that may already exist.
func (g *generator) child(queue string, m *model) {
	above := oneOf(g, "orders", "parts")
	parent := g.anyID(g.queues[above])
	g.names++
	id := fmt.Sprint("c-", g.names)
	o := args{"jobId": id, "parent": args{"id": parent, "queue": "bull:" + above}}
	if g.chance(50) {
		o[oneOf(g, "failParentOnFailure", "continueParentOnFailure", "ignoreDependencyOnFailure", "removeDependencyOnFailure")] = true
	}
	if g.chance(20) && len(m.known) > 0 {
		if old := oneOf(g, m.known...); old[0] >= 'a' {
			o["jobId"] = old
		}
	}
	g.large[parent] = true // regardless of its children so far
	g.step("add", args{"queue": queue, "name": "c", "data": g.data(), "opts": o})
	g.record(m, o)
}

// work runs a worker on the jobs that are predicted to wait.
func (g *generator) work(queue string, m *model) {
	if len(m.waiting) == 0 || len(m.delayed) > 0 || m.scheduled {
		return
	}
	handler := oneOf(g,
		args{"return": g.data()}, args{"throw": "no luck"}, args{"unrecoverable": "no use"},
		args{"progress": 50, "log": "half", "return": nil}, args{"children": true})
	g.step("run", args{"queue": queue, "count": 1, "worker": args{}, "handler": handler, "timeout": 1000})
	g.take(m, "")
	m.ended = append(m.ended, m.active[len(m.active)-1].id)
	m.active = m.active[:len(m.active)-1]
}

func (g *generator) data() any {
	return oneOf[any](g, args{"n": g.IntN(5)}, nil, "text", 1.5, 0, true, []any{}, []any{1, nil, "x"}, args{},
		args{"html": "<a href=\"x\">&</a>", "line": "a\u2028b", "deep": args{"a": []any{args{"b": "é😀"}}}}, 1e21)
}

// repeat returns the repeat options of a scheduler.
func (g *generator) repeat() args {
	r := oneOf(g, args{"every": 1000}, args{"every": 5000}, args{"every": 86400000}, args{"pattern": "* * * * *"},
		args{"pattern": "*/2 * * * * *"}, args{"pattern": "0 30 2 * * *", "tz": "Europe/Berlin"}, args{"pattern": "0 0 1 1 *", "tz": "America/New_York"})
	if g.chance(30) {
		r["limit"] = 1 + g.IntN(3)
	}
	if g.chance(15) {
		r["startDate"] = g.now + int64(oneOf(g, -5000, 1500, 90000))
	}
	if g.chance(15) {
		r["endDate"] = g.now + int64(oneOf(g, 800, 4000, 200000))
	}
	if _, every := r["every"]; every && g.chance(15) {
		r["offset"] = oneOf(g, 0, 1, 250)
	}
	if _, cron := r["pattern"]; cron && g.chance(15) {
		r["immediately"] = true
	}
	return r
}

// template returns the job template of a scheduler.
func (g *generator) template(id string) args {
	t := args{}
	if g.chance(80) {
		t["name"] = id
	}
	if g.chance(70) {
		t["data"] = g.data()
	}
	if g.chance(30) {
		o := g.options(&model{})
		for _, not := range []string{"jobId", "delay", "deduplication"} {
			delete(o, not)
		}
		t["opts"] = o
	}
	return t
}

// spoil changes data behind the libraries' backs, as other clients or a loss in Redis could.
func (g *generator) spoil(queue, id string) {
	if id == "nobody" { // the SDK fails a job without a name, and Node runs it
		return
	}
	base := "bull:" + queue + ":"
	g.steps = append(g.steps, Step{Op: "$redis", Redis: oneOf(g,
		[]string{"DEL", base + id + ":lock"}, []string{"DEL", base + "meta"}, []string{"DEL", base + "marker"}, []string{"DEL", base + "id"},
		[]string{"DEL", base + "events"}, []string{"DEL", base + "pc"}, []string{"DEL", base + "stalled"}, []string{"DEL", base + "de:d1"},
		[]string{"SADD", base + "stalled", id}, []string{"LREM", base + "active", "0", id}, []string{"LREM", base + "wait", "0", id},
		[]string{"ZREM", base + "delayed", id}, []string{"SET", base + id + ":lock", "another's"}, []string{"DEL", base + id + ":dependencies"},
		[]string{"HDEL", base + id, "opts"}, []string{"HDEL", base + id, "delay", "priority"}, []string{"HDEL", base + id, "data"},
		[]string{"HSET", base + id, "atm", "3"}, []string{"HSET", base + id, "ats", "7"}, []string{"HSET", base + id, "stc", "1"},
		[]string{"HSET", base + id, "priority", "4"}, []string{"HSET", base + id, "delay", "100"}, []string{"HSET", base + id, "defa", "why"},
		[]string{"HSET", base + id, "processedOn", "5"}, []string{"HSET", base + id, "finishedOn", "6", "returnvalue", "7"},
		[]string{"ZADD", base + "delayed", "4096", id}, []string{"RPUSH", base + "wait", id}, []string{"ZADD", base + "completed", "5", id},
		[]string{"HSET", base + "meta", "paused", "1"}, []string{"HSET", base + "meta", "concurrency", "1"}, []string{"SET", base + "limiter", "2", "PX", "60000"},
		[]string{"SADD", base + id + ":dependencies", "bull:parts:nobody"}, []string{"SET", base + "de:d2", id},
	)})
}
