package scripts

import (
	"context"
	"strconv"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

var startNamed = load("startNamed")

var _ backend.NameLimits = (*Store)(nil)

// StartNamed asks whether a running job may start under the limits of its name.
func (q *Store) StartNamed(ctx context.Context, s backend.NamedStart) (granted bool, wait time.Duration, err error) {
	extension := extensionBase(q.base)
	keys := []string{extension + "running:" + s.Name, extension + "started:" + s.Name}
	message, err := runWithKeys(ctx, q.client, startNamed, keys, q.base, s.JobID, s.Token, strconv.Itoa(s.Concurrency),
		strconv.Itoa(s.Starts.Max), decimal(s.Starts.Duration.Milliseconds()))
	if err != nil {
		return false, 0, q.failed(startNamed, err)
	}
	reply, err := message.AsIntSlice()
	if err != nil || len(reply) < 2 {
		return false, 0, q.unexpected(startNamed, err)
	}
	return reply[0] == 1, time.Duration(max(reply[1], 0)) * time.Millisecond, nil
}
