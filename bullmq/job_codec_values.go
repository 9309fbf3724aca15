package bullmq

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// How the values of options are written and read.

// isNull reports whether a value is null or an empty json.RawMessage.
func isNull(text json.RawMessage) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "null"
}

// isFalsy reports whether a value is falsy in JavaScript.
func isFalsy(text json.RawMessage) bool {
	var value any
	if json.Unmarshal(text, &value) != nil {
		return false
	}
	return value == nil || value == false || value == 0.0 || value == ""
}

func intOrNil(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

func boolOrNil(set bool) any {
	if !set {
		return nil
	}
	return true
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func millisOrNil(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return json.RawMessage(wire.FormatMillis(d))
}

func retentionOrNil(k Retention) any {
	if k.IsZero() {
		return nil
	}
	return k
}

func readInt(v any, target *int) bool {
	number, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return false
	}
	*target = int(f)
	return true
}

func readBool(v any, target *bool) bool {
	b, ok := v.(bool)
	if ok {
		*target = b
	}
	return ok
}

func readText(v any, target *string) bool {
	text, ok := v.(string)
	if ok {
		*target = text
	}
	return ok
}

func readMillis(v any, target *time.Duration) bool {
	number, ok := v.(json.Number)
	if !ok {
		return false
	}
	f, err := number.Float64()
	if err != nil || math.Abs(f) > math.MaxInt64/float64(time.Millisecond) {
		return false
	}
	*target = time.Duration(math.Round(f*1e3)) * time.Microsecond
	return true
}

func readRetention(v any, target *Retention) bool {
	keep, ok := parseRetention(v)
	if ok && v != nil {
		*target = keep
	}
	return ok && v != nil
}

func writePolicy(policy ParentPolicy) func(o *JobOptions) any {
	return func(o *JobOptions) any { return boolOrNil(o.OnFailure == policy) }
}

// readPolicy returns the function that reads a policy for the parent. OnFailure holds one
// policy. A further one is not read, and so stays in Extra.
func readPolicy(policy ParentPolicy) func(o *JobOptions, v any) bool {
	return func(o *JobOptions, v any) bool {
		var set bool
		if !readBool(v, &set) || set && o.OnFailure != KeepParentWaiting && o.OnFailure != policy {
			return false
		}
		if set {
			o.OnFailure = policy
		}
		return true
	}
}

// orderPolicies moves the policy that takes effect to OnFailure, if several were parsed.
func (o *JobOptions) orderPolicies() {
	if o.OnFailure == KeepParentWaiting || len(o.Extra) == 0 {
		return
	}
	for _, policy := range parentPolicies {
		if policy == o.OnFailure {
			return
		}
		first, parsed := policy.wire(), o.OnFailure.wire()
		if string(o.Extra[first]) == "true" {
			o.Extra[parsed] = o.Extra[first]
			delete(o.Extra, first)
			o.OnFailure = policy
			return
		}
	}
}

// wire returns the stored name of the option that selects a policy, which must not be
// KeepParentWaiting.
func (p ParentPolicy) wire() string { return jobOptionsByName[string(p)].wire }

// policies returns the policies that are set, by OnFailure or by a value in Extra that is
// true in JavaScript.
func (o *JobOptions) policies() (set []ParentPolicy) {
	for _, policy := range parentPolicies {
		text, extra := o.Extra[policy.wire()]
		if o.OnFailure == policy || extra && !isNull(text) && !isFalsy(text) {
			set = append(set, policy)
		}
	}
	return set
}
