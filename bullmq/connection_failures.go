package bullmq

import (
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/batch"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// answered is Redis's own answer that a call has failed, however it is wrapped;
// false where the call got no answer.
func answered(err error) (*rueidis.RedisError, bool) {
	var refusal *rueidis.RedisError
	return refusal, errors.As(err, &refusal) && refusal != rueidis.Nil
}

// cantServe are the beginnings of refusals that concern not the command but
// the server: it has done nothing, and may some time later. rueidis takes the
// word ERR away.
var cantServe = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "UNBLOCKED", "max number of clients"}

// inFull are the beginnings of other refusals that come before a command has
// done anything. Any other error of the server's may end a script halfway.
var inFull = []string{
	"OOM", "MISCONF", "NOREPLICAS", "TRYAGAIN", "NOSCRIPT", "MOVED", "ASK", "CROSSSLOT",
	"NOAUTH", "WRONGPASS", "DENIED", "NOPERM", // a right that a script lacks is an ERR, see acl_test.go
}

// scriptError matches how Redis 6.2 reports a refusal that a script met. The
// dash is there only if the server refused the command without carrying it out.
var scriptError = regexp.MustCompile(`^Error running script .*@user_script: [0-9]+: -`)

// refusedAs reports whether Redis refused a command with an error that begins
// with one of the given words. An error of a script begins, from Redis 7 on, as
// the error that ended it.
func refusedAs(err error, beginnings ...string) bool {
	refusal, ok := answered(err)
	if !ok {
		return false
	}
	text := refusal.Error()
	if prefix := scriptError.FindString(text); prefix != "" {
		text = text[len(prefix):]
	}
	return slices.ContainsFunc(beginnings, func(words string) bool {
		rest, found := strings.CutPrefix(text, words)
		return found && (rest == "" || rest[0] == ' ')
	})
}

// forbidden says whether Redis refused a command for good, as where its use is
// not allowed.
func forbidden(err error) bool {
	_, refused := answered(err)
	return refused && !refusedAs(err, cantServe...)
}

// neverSent says of a call that failed that nothing of it has reached Redis.
func neverSent(err error) bool {
	var network *net.OpError
	var notSent *batch.NotSentError
	switch {
	case errors.As(err, &notSent):
		return true
	case errors.As(err, &network):
		return network.Op == "dial"
	case errors.Is(err, ErrClosed):
		return !errors.Is(err, errCutOff)
	}
	return errors.Is(err, scripts.ErrNotSent) || errors.Is(err, rueidis.ErrNoSlot)
}

// mayHaveRun says whether a script whose call failed may have been carried out
// all the same, or a part of it: not when it was refused before that, nor when
// it was never sent.
func mayHaveRun(err error) bool {
	var refused *Error
	return err != nil && !errors.As(err, &refused) && !refusedAs(err, cantServe...) && !refusedAs(err, inFull...) && !neverSent(err)
}
