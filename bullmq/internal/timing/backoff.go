package timing

import "time"

// Backoff computes the pauses between the attempts of one of the SDK's own loops. (The
// backoff of a job is bullmq.Backoff, in worker_retry.go.)
//
// The first pauses are short, so that a brief interruption costs little. No pause is longer
// than a second, so that the end of an outage is noticed soon.
//
// The pauses keep growing if a failure soon follows the previous one, even if attempts
// succeeded in between, because one of several connections may be broken.
type Backoff struct {
	wait      time.Duration
	failed    time.Time // the last failure
	succeeded bool      // an attempt has succeeded since the last failure
}

const (
	// ShortestPause is the first pause.
	ShortestPause = 20 * time.Millisecond
	// LongestPause is the pause after many failures.
	LongestPause = time.Second

	calmAfter = 3 * time.Second // after this time without a failure, pauses are short again
)

// Next returns how long to wait after a failure.
func (b *Backoff) Next() time.Duration {
	now := time.Now()
	if b.succeeded && now.Sub(b.failed) > calmAfter {
		b.wait = 0
	}
	b.failed, b.succeeded = now, false
	b.wait = min(max(2*b.wait, ShortestPause), LongestPause)
	return b.wait
}

// Succeeded records that an attempt of the loop has succeeded.
func (b *Backoff) Succeeded() { b.succeeded = true }

// AtLongest reports whether the pauses have grown to their longest.
func (b *Backoff) AtLongest() bool { return b.wait == LongestPause }
