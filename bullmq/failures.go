package bullmq

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

// answered is Redis's own answer that a call has failed, however it is wrapped;
// false where the call got no answer.
func answered(err error) (*rueidis.RedisError, bool) {
	var refusal *rueidis.RedisError
	return refusal, errors.As(err, &refusal) && refusal != rueidis.Nil
}

// cantServe are the first words of refusals that concern not the command but
// the server: it has done nothing, and may some time later.
var cantServe = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY"}

// inFull are the first words of other refusals that come before a command has
// done anything. Any other error of the server's may end a script halfway.
var inFull = []string{"OOM", "MISCONF", "NOREPLICAS", "TRYAGAIN", "NOSCRIPT", "MOVED", "ASK", "CROSSSLOT", "NOAUTH"}

// refusedAs says whether Redis refused a command with one of the words.
func refusedAs(err error, words ...string) bool {
	refusal, ok := answered(err)
	if !ok {
		return false
	}
	word, _, _ := strings.Cut(refusal.Error(), " ")
	return slices.Contains(words, word)
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
	var left notSent
	switch {
	case errors.As(err, &left):
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
