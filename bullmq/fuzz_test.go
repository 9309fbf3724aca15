package bullmq

// Redis may contain anything, so these targets pass arbitrary input to the decoders. An ordinary test run
// uses only the inputs in testdata/fuzz and the seeds. make fuzz searches for more.

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/schedule"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
	"github.com/17a2ac88/bullmq-go/internal/testkit/fakeredis"
)

// fuzzCore returns a queue without a connection.
func fuzzCore(t testing.TB) *core {
	k, err := newKeys("bull", "fuzzed")
	if err != nil {
		t.Fatal(err)
	}
	return &core{keys: k, now: func() time.Time { return time.UnixMilli(1700000000000) }}
}

// within fails a decoder that is slow or needs far more memory than its input.
func within(t *testing.T, size int, read func()) {
	t.Helper()
	before, begun := allocated(), time.Now()
	read()
	took := time.Since(begun)
	if took > 5*time.Second {
		t.Fatalf("%d bytes were read for %v", size, took)
	}
	if grown := allocated() - before; grown > uint64(4<<20+2000*size) {
		t.Fatalf("%d bytes of memory for %d bytes read", grown, size)
	}
}

// allocated returns about how many bytes the process has ever allocated, without stopping the world.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// same compares JSON values, and numbers by their value in JavaScript.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := a.Float64()
		y, _ := b.Float64()
		return x == y || math.Abs(x-y) <= math.Max(0.001, 1e-12*math.Abs(x)) // times are kept in microseconds
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			if value, there := b[name]; !there || !same(a[name], value) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(a, b)
	}
}

func FuzzJobOptions(f *testing.F) {
	for _, seed := range []string{
		`{"attempts":0}`, `[]`, `null`, `{"attempts":3,"backoff":{"type":"exponential","delay":1000,"jitter":0.5,"more":[1]},"delay":5}`,
		`{"backoff":250}`, `{"backoff":"soon","removeOnComplete":true,"removeOnFail":{"age":60,"count":5,"limit":2,"more":1}}`,
		`{"kl":5,"keepLogs":6,"de":{"id":"d","ttl":5,"extend":true,"replace":false,"x":1}}`, `{"telemetry":{"metadata":"m","omitContext":true},"tm":"n","omc":false}`,
		`{"parent":{"id":"1","queue":"bull:q","more":1},"fpof":true,"failParentOnFailure":false}`, `{"delay":0,"priority":0,"lifo":false,"jobId":"","timestamp":1.5}`,
		`{"repeat":{"pattern":"* * * * *"},"repeatJobKey":"s","prevMillis":1,"stackTraceLimit":0,"sizeLimit":1e3,"attempts":1.5}`,
		`{"timestamp":1e400,"attempts":-1e300,"delay":"x"}`, `{"a":1,"a":2}`, "{\"\xff\":\"\u2028\"}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		within(t, len(text), func() { checkOptions(t, text) })
	})
}

func checkOptions(t *testing.T, text string) {
	var o JobOptions
	if o.UnmarshalJSON([]byte(text)) != nil {
		return
	}
	written, err := o.encode()
	if err != nil {
		t.Fatalf("options that were read can't be written: %v", err)
	}
	var again JobOptions
	if err := again.UnmarshalJSON([]byte(written)); err != nil {
		t.Fatalf("%s can't be read again: %v", written, err)
	}
	if twice, _ := again.encode(); twice != written {
		t.Fatalf("written as %s and then as %s", written, twice)
	}
	var in, out map[string]any
	if wire.DecodeJSON([]byte(text), &in) != nil || !utf8.ValidString(text) {
		return
	}
	if err := wire.DecodeJSON([]byte(written), &out); err != nil {
		t.Fatal(err)
	}
	for name, value := range in {
		option := jobOptionsByName[name]
		if option != nil && option.wire != name {
			continue // a public name, which has another name on the wire
		}
		if number, ok := value.(json.Number); ok && name == "backoff" {
			value = map[string]any{"type": "fixed", "delay": number}
			if f, err := number.Float64(); err != nil || f == 0 {
				continue
			}
		}
		if parent, ok := value.(map[string]any); ok && name == "parent" && option != nil {
			value = map[string]any{"id": parent["id"], "queue": parent["queue"]} // the rest is not read
			if _, kept := o.Extra[name]; kept {
				value = parent
			}
		}
		if !same(value, out[name]) {
			t.Fatalf("%s of %s became %v", name, text, out[name])
		}
	}
}

func FuzzJobHash(f *testing.F) {
	f.Add("paint", `{"a":1}`, `{"attempts":3,"backoff":{"type":"exponential","delay":1000}}`, "1700000000000", `["boom"]`, "bull:q:1", `{"id":"1","queueKey":"bull:q"}`)
	f.Add("", "{nonsense", "[1]", "-1.5", "boom", "", "")
	f.Add("a", "", "{}", "1e400", `["a",1,null]`, "nobody", "{}")
	f.Add("a", "null", `{"stackTraceLimit":2,"attempts":99999,"backoff":{"type":"fixed","delay":1e300,"jitter":-1e300}}`, "9223372036854775808", `["a","b","c"]`, ":::", "5")
	f.Add("a", "[]", `{"attempts":9e15,"backoff":{"type":"exponential","delay":0,"jitter":2}}`, "5000", `{}`, "\xff", "\x00")
	f.Fuzz(func(t *testing.T, name, data, opts, number, stack, key, text string) {
		c := fuzzCore(t)
		hash := []string{
			"name", name, "data", data, "opts", opts, "timestamp", number, "delay", number, "priority", number, "atm", number, "ats", number,
			"stc", number, "processedOn", number, "finishedOn", number, "pb", text, "progress", data, "returnvalue", text, "failedReason", text,
			"stacktrace", stack, "parentKey", key, "parent", text, "rjk", key, "deid", key, "defa", text, key, text, "odd",
		}
		within(t, len(name)+len(data)+len(opts)+len(number)+len(stack)+len(key)+len(text), func() { checkJob(t, c.newJob(scripts.Record("1", hash)), hash) })
	})
}

func checkJob(t *testing.T, job *Job, hash []string) {
	view, err := job.MarshalJSON()
	if err != nil || !json.Valid(view) {
		t.Fatalf("the job is written as %s: %v", view, err)
	}
	if string(job.RawOptions) != hash[5] || job.FailedReason != hash[29] || len(job.Data) == 0 {
		t.Fatalf("fields got lost: %+v", job)
	}
	if (job.invalid == nil) != json.Valid(job.Data) {
		t.Fatalf("data %q, flaw %v", job.Data, job.invalid)
	}
	before := job.StackTrace
	if after := traces(job, "newest"); job.Options.StackTraceLimit == 0 {
		if len(after) != len(before)+1 || after[len(before)] != "newest" || len(before) > 0 && after[0] != before[0] {
			t.Fatalf("stack traces %q became %q", before, after)
		}
	}
	for _, chance := range []float64{0, 0.999} {
		d, err := retryPolicy{chance: chance}.decide(job, errors.New("boom"))
		switch {
		case d.action == retryLater && (d.wait <= 0 || d.wait > (maxWait+1)*time.Millisecond):
			t.Fatalf("a wait of %v", d.wait)
		case d.action != retryLater && d.action != retryNow && d.action != fail:
			t.Fatalf("a job that failed is to be %v", d)
		case d.action != fail && job.AttemptsMade+job.attemptsSince+1 >= job.Options.Attempts:
			t.Fatalf("attempt %d of %d is not the last", job.AttemptsMade, job.Options.Attempts)
		case err != nil && d.action != fail:
			t.Fatal(err)
		}
	}
	keep := job.Options.KeepCompleted.withDefault(Retention{})
	for _, number := range []backend.OptionalInt{keep.Count, keep.Age, keep.Removals} {
		if number.Value > wire.MaxSafeInteger || number.Value < -wire.MaxSafeInteger {
			t.Fatalf("what is kept: %+v", keep)
		}
	}
	for _, at := range []time.Time{job.Timestamp, job.ProcessedOn, job.FinishedOn} {
		if !at.IsZero() && wire.ParseTime(wire.FormatTime(at)) != at {
			t.Fatalf("%v is written as %s", at, wire.FormatTime(at))
		}
	}
}

func FuzzScheduledJob(f *testing.F) {
	f.Add(`{"repeat":{"every":60000,"count":1,"offset":5,"limit":9},"prevMillis":1}`, "s", "{}")
	f.Add(`{"repeat":{"pattern":"*/5 * * * *","tz":"Europe/Rome","count":"x","startDate":"2024-01-01T00:00:00Z"},"backoff":5}`, "s", `{"a":1}`)
	f.Add(`{"repeat":{"pattern":"0 0 31 2 *"}}`, "s", "")
	f.Add(`{"repeat":{"pattern":"H H(0-5) 29 2 5L","hashSeed":"x"},"tm":5,"omc":true}`, "a:b:c:d", "null")
	f.Add(`{"repeat":null}`, "s", "{}")
	f.Add(`{"repeat":{"every":1e400,"limit":-1e300,"endDate":9e99}}`, "a:b:1:c:* * * * *", "{}")
	f.Add(`null`, "\xff", "{}")
	f.Fuzz(func(t *testing.T, opts, scheduler, data string) {
		w := &queueWorker{core: fuzzCore(t)}
		within(t, len(opts)+len(scheduler)+len(data)+1<<10, func() {
			job := w.core.newJob(scripts.Record("repeat:s:1", []string{"name", "a", "data", data, "opts", opts, "rjk", scheduler}))
			a, err := w.nextRun(job)
			if err != nil || a == nil {
				return
			}
			if text, err := carryOn(a.Opts, "context"); err != nil || !json.Valid([]byte(text)) {
				t.Fatalf("%s with a context is %s: %v", a.Opts, text, err)
			}
			var before, after map[string]any
			if err := wire.DecodeJSON([]byte(a.Opts), &after); err != nil {
				t.Fatalf("%s: %v", a.Opts, err)
			}
			if wire.DecodeJSON([]byte(opts), &before) != nil || !utf8.ValidString(opts) {
				return
			}
			for name, value := range before {
				switch name {
				case "repeat", "repeatJobKey", "timestamp", "prevMillis", "backoff":
				default:
					if !same(value, after[name]) {
						t.Fatalf("%s of %s became %v", name, opts, after[name])
					}
				}
			}
			if !a.Due.IsZero() && a.Due.Before(w.core.now()) {
				t.Fatalf("the next run is at %v", a.Due)
			}
		})
	})
}

func FuzzSchedulerRecord(f *testing.F) {
	f.Add("s", "*/5 * * * *", "Europe/Rome", "60000", `{"a":1}`, int64(1))
	f.Add("name:id:1:UTC:* * * * *", "nonsense", "Mars", "-1e400", "{nonsense", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, id, pattern, zone, number, text string, next int64) {
		c := fuzzCore(t)
		within(t, len(id)+len(pattern)+len(zone)+len(number)+len(text)+1<<10, func() {
			s := newScheduler(&backend.SchedulerRecord{
				ID: id, Next: time.UnixMilli(next), Name: text, Data: rawJSON(text), Opts: rawJSON(text),
				Repeat: backend.SchedulerRepeat{
					Pattern: pattern, TimeZone: zone, Every: wire.ParseMillis(number), Offset: wire.ParseMillis(number),
					Limit: parseInt(number), StartDate: wire.ParseTime(number), EndDate: wire.ParseTime(number),
				},
			})
			if s.Repeat.Pattern != pattern || s.Name != text || s.Data != nil && !json.Valid(s.Data) {
				t.Fatalf("%+v", s)
			}
			legacyScheduler(&backend.SchedulerRecord{ID: id, Next: time.UnixMilli(next), Missing: true})
			schedule.IsLegacyKey(id)
			for _, r := range []Repeat{{Pattern: pattern, TimeZone: zone}, s.Repeat, {Every: s.Repeat.Every, Offset: s.Repeat.Offset, Limit: s.Repeat.Limit}} {
				made, err := (&Queue{core: c}).scheduler(id, r, JobTemplate{Name: s.Name, Data: s.Data})
				if err == nil && made != nil && (!json.Valid([]byte(made.Opts)) || made.Due.IsZero() && made.Repeat.Every == 0) {
					t.Fatalf("%+v", made)
				}
			}
		})
	})
}

func FuzzEvent(f *testing.F) {
	f.Add("1700000000000-0", "completed", "returnvalue", `{"a":1}`)
	f.Add("x", "delayed", "delay", "1e400")
	f.Add("", "cleaned", "count", "-5")
	f.Add("9999999999999999999-1", "\xff", "event", "waiting")
	f.Fuzz(func(t *testing.T, id, kind, field, value string) {
		fields := []string{"event", kind, "jobId", value, field, value, "data", value, "returnvalue", value, "delay", value, "attemptsMade", value, "count", value, "odd"}
		within(t, len(id)+len(kind)+len(field)+len(value), func() {
			e := readEvent(id, fields)
			if e.ID != id || !reflect.DeepEqual(e.Fields, fields) || e.Field("event") != kind {
				t.Fatalf("%+v", e)
			}
			if e.Progress != nil && !json.Valid(e.Progress) || e.ReturnValue != nil && !json.Valid(e.ReturnValue) {
				t.Fatalf("%+v", e)
			}
			e.Time()
		})
	})
}

func FuzzNumbers(f *testing.F) {
	for _, seed := range []string{"0", "-0", "12", "1.5", "1e3", "nan", "inf", "-9223372036854775808", "9223372036854775808", " 7 ", "+", "0x10", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := wire.ParseNumber(text)
		if count := parseInt(text); ok && n >= -wire.MaxSafeInteger && n <= wire.MaxSafeInteger && int64(count) != n {
			t.Fatalf("%q is %d and %d", text, n, count)
		}
		if wire.IsDecimalInteger(text) && len(text) < 16 && (!ok || whole(json.Number(text)) != backend.Int(int(n))) {
			t.Fatalf("%q is the whole number %d", text, n)
		}
		if d := wire.ParseMillis(text); wire.ParseMillis(wire.FormatMillis(d)) != d && math.Abs(float64(d)) < 1e15 {
			t.Fatalf("%v is written as %s", d, wire.FormatMillis(d))
		}
		if at := wire.ParseTime(text); !at.IsZero() && wire.ParseTime(wire.FormatTime(at)) != at {
			t.Fatalf("%v is written as %s", at, wire.FormatTime(at))
		}
	})
}

func FuzzJobKey(f *testing.F) {
	for _, seed := range []string{"bull:fuzzed:1", "bull:fuzzed:1:lock", "bull:fuzzed:repeat:s:1", "a:b:c:d", "::", "", "bull:fuzzed:", "bull:fuzzed:de:x:logs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if ref := backend.ParseJobRef(key); ref.String() != key {
			t.Fatalf("%q is %#v", key, ref)
		}
		k := fuzzCore(t).keys
		if id, ok := k.jobIDOf(key); ok && !strings.HasPrefix(key, k.jobKey(id)) {
			t.Fatalf("%q is of job %q", key, id)
		}
		wire.HashTag(key)
	})
}

func FuzzJSONText(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\u2028\\u2028"]}`, `"\\\\u2029"`, "\u2028", `[1e400,-0,12345678901234567890]`, "\xff", `"\ud800"`, `"\\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		within(t, len(text), func() {
			written, err := wire.EncodeJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			var back string
			if err := json.Unmarshal([]byte(written), &back); err != nil || utf8.ValidString(text) && back != text {
				t.Fatalf("%q is written as %s: %v", text, written, err)
			}
			var value any
			if wire.DecodeJSON([]byte(text), &value) != nil {
				return
			}
			again, err := wire.EncodeJSON(value)
			var read any
			if err != nil || wire.DecodeJSON([]byte(again), &read) != nil || utf8.ValidString(text) && !same(value, read) {
				t.Fatalf("%s is written as %s: %v", text, again, err)
			}
		})
	})
}

func FuzzPublicReaders(f *testing.F) {
	hash := []string{"name", "paint", "data", "{}", "opts", `{"attempts":3}`, "timestamp", "1", "delay", "0", "priority", "0", "rjk", "s"}
	fields := fakeredis.Map{"name", "paint", "every", "60000", "data", "{nonsense"}
	seeds := [][]any{
		{fields}, {[]any{[]any{[]any{"1", hash}}}}, {[]any{hash, "1", 0, 0}, 0}, {[]any{1, 2, 3, 4, 5, 6, 7}}, {[]any{nil, "1", "many", "5", "long", "x"}},
		{"id=1 name=bull:ZnV6emVk\n"}, {[]any{[]any{"s", 1e300}}, fields, 5.5}, {[]any{"0", []string{"bull:fuzzed:1", "bull:fuzzed:de:x"}}, []string{"1", "2"}},
		{1, 2, 3, 4, []any{"0", []string{"bull:q:1", "{}"}}, fields}, {"OK", "Q", "Q", "Q", "Q", []any{fields, []string{"x"}, fields, []string{}}},
		{fields, []any{"0", []string{"a:b:c", "v"}}, []any{"0", []string{}}, []any{"0", []string{}}, []string{"bull:fuzzed:1"}, fields},
		{1, "OK", fakeredis.Map{"bull:fuzzed:events", []any{[]any{"1-1", []string{"event", "failed", "jobId", "1"}}}}},
		{[]any{[]any{"1-1", []string{"event", "completed", "jobId", "1", "returnvalue", "{nonsense"}}}}, {fakeredis.Err("WRONGTYPE no")}, {-1}, {nil},
	}
	for i := range publicCalls {
		for _, n := range []int{0, 1, 5} {
			f.Add(byte(i), fakeredis.Encode(seeds[(i+n)%len(seeds)]...))
		}
	}
	server, q, w, p, closeAll, err := onAnyServer()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(closeAll)
	f.Fuzz(func(t *testing.T, which byte, answers []byte) {
		if len(answers) > 1<<14 {
			return
		}
		server.Script(answers)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c := publicCalls[int(which)%len(publicCalls)]
		_ = c.call(ctx, q, w, p)
		if ctx.Err() != nil {
			t.Fatalf("%s didn't end", c.name)
		}
		if asked := server.Calls(); asked > 16*(len(answers)+16) {
			t.Fatalf("%s sent %d commands for %d bytes of replies", c.name, asked, len(answers))
		}
	})
}
