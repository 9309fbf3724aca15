package redisconn

import (
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

// unavailable has the error prefixes of a server that can't serve now. The command did
// not run, so retrying later is safe. rueidis removes the word ERR.
var unavailable = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "UNBLOCKED", "max number of clients"}

// exhausted has the error prefixes of a server that lacks a resource, such as memory.
// The command did not run.
var exhausted = []string{"OOM", "MISCONF", "NOREPLICAS"}

// rejected has other error prefixes of commands that did not run. Any other error may
// have ended a script halfway.
var rejected = []string{
	"NOSCRIPT", "MOVED", "ASK", "CROSSSLOT",
	"NOAUTH", "WRONGPASS", "DENIED",
}

// forbidden is the error prefix of a command that the user is not permitted to run. If the
// user lacks a permission within a script, the prefix is ERR.
const forbidden = "NOPERM"

// Classify returns the kind of failure of a call to Redis, given its error.
func Classify(err error) backend.Failure {
	var network *net.OpError
	var ofOne *backend.QueueError
	switch {
	case refusedAs(err, unavailable...), refusedAs(err, "TRYAGAIN"):
		return backend.Unavailable
	case refusedAs(err, exhausted...):
		return backend.Exhausted
	case refusedAs(err, rejected...):
		return backend.Refused
	case refusedAs(err, forbidden):
		return backend.Forbidden
	case errors.As(err, &network) && network.Op == "dial", errors.Is(err, rueidis.ErrNoSlot):
		return backend.NotSent
	case errors.Is(err, backend.ErrClosed) && !errors.Is(err, backend.ErrCutOff):
		return backend.NotSent
	case errors.Is(err, rueidis.ErrClosing):
		return backend.ClientClosed
	case errors.As(err, &ofOne):
		return backend.Aborted
	}
	if _, replied := reply(err); replied || rueidis.IsParseErr(err) {
		return backend.Aborted
	}
	return backend.Lost
}

// reply returns the error reply of Redis that err wraps, or false if err wraps none.
func reply(err error) (*rueidis.RedisError, bool) {
	var refusal *rueidis.RedisError
	return refusal, errors.As(err, &refusal) && refusal != rueidis.Nil
}

// scriptError matches the error with which Redis 6.2 reports that it refused a command of a
// script before the command ran. The dash at the end is absent if the command ran.
var scriptError = regexp.MustCompile(`^Error running script .*@user_script: [0-9]+: -`)

// refusedAs reports whether Redis refused a command with an error that begins with one of
// the given prefixes. From Redis 7 on, the error of a script begins with the prefix of the
// error that ended the script.
func refusedAs(err error, prefixes ...string) bool {
	refusal, ok := reply(err)
	if !ok {
		return false
	}
	text := refusal.Error()
	if prefix := scriptError.FindString(text); prefix != "" {
		text = text[len(prefix):]
	}
	return slices.ContainsFunc(prefixes, func(words string) bool {
		rest, found := strings.CutPrefix(text, words)
		return found && (rest == "" || rest[0] == ' ')
	})
}

// suggestsOutage reports whether a call's error may mean that Redis is unreachable or can't
// serve now. It returns false for any other error reply, and if the caller has ended the call.
func suggestsOutage(err error) bool {
	if err == rueidis.Nil || rueidis.IsParseErr(err) {
		return false
	}
	if _, replied := reply(err); replied {
		return refusedAs(err, unavailable...)
	}
	for _, ended := range []error{context.Canceled, backend.ErrNoConnection, backend.ErrClosed, rueidis.ErrClosing, net.ErrClosed} {
		if errors.Is(err, ended) {
			return false
		}
	}
	return true
}
