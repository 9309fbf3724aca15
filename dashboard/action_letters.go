package dashboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// letterActions act on dead letters.
var letterActions = []action{{
	name: "replay", title: "Replay", on: onLetters,
	plan: func(ctx context.Context, s *subject) (string, error) {
		const effect = "Each job goes back to the queue where it failed, with all its attempts, and is ready to run at once."
		if ids := s.ids(); len(ids) > 0 {
			return fmt.Sprintf("Replay %s of %s. %s", number(len(ids), "dead letter"), s.queue.Name(), effect), nil
		}
		counts, err := s.queue.DeadLetterCounts(ctx)
		if err != nil {
			return "", err
		}
		selection, err := s.letters()
		if err != nil {
			return "", err
		}
		if selection.origin != "" && !s.mayReplay(selection.origin) {
			return "", refused{errForeignLetter}
		}
		switch {
		case selection.reason != "" && selection.origin != "":
			most := min(counts.Reasons[selection.reason], counts.Queues[selection.origin])
			return fmt.Sprintf("Replay the dead letters of %s that failed in %s with the reason “%s”, at most %s. %s", s.queue.Name(), cut(selection.origin, 80), selection.reason, formatCount(most), effect), nil
		case selection.reason != "":
			return fmt.Sprintf("Replay %s of %s with the reason “%s”. %s", number(counts.Reasons[selection.reason], "dead letter"), s.queue.Name(), selection.reason, effect), nil
		case selection.origin != "":
			return fmt.Sprintf("Replay %s of %s that failed in %s. %s", number(counts.Queues[selection.origin], "dead letter"), s.queue.Name(), cut(selection.origin, 80), effect), nil
		}
		hidden := 0
		for queue, n := range counts.Queues {
			if !s.mayReplay(queue) {
				hidden += n
			}
		}
		if hidden > 0 {
			return fmt.Sprintf("Replay %s of %s. %s of jobs that failed in queues that you may not change stay. %s", number(counts.Total-hidden, "dead letter"), s.queue.Name(), formatCount(hidden), effect), nil
		}
		return fmt.Sprintf("Replay all %s of %s. %s", number(counts.Total, "dead letter"), s.queue.Name(), effect), nil
	},
	do: func(ctx context.Context, s *subject) (string, error) {
		ctx, cancel := s.bounded(ctx)
		defer cancel()
		if ids := s.ids(); len(ids) > 0 {
			replayed := 0
			for _, id := range ids {
				if err := s.replayOne(ctx, id); err != nil {
					s.Failed = append(s.Failed, failure{id, cut(plain(err, s.name, id).Error(), 400)})
					continue
				}
				replayed++
			}
			if replayed == 0 {
				return "", errors.New(s.Failed[0].Error)
			}
			return replayedText(replayed, len(s.Failed)), nil
		}
		selection, err := s.letters()
		if err != nil {
			return "", err
		}
		done, err := s.queue.ReplayDeadLetters(ctx, &bullmq.ReplayOptions{Filter: func(letter bullmq.DeadLetter) bool {
			return selection.selects(letter) && s.mayReplay(letter.QueueName)
		}, Limit: maxReplayed})
		if err != nil && len(done) == 0 {
			return "", err
		}
		text := replayedText(len(done), 0)
		if s.More = len(done) == maxReplayed || ctx.Err() != nil; s.More {
			text += " There may be more: repeat the action."
		}
		if err != nil {
			text += " Not all were replayed: " + cut(err.Error(), 500)
		}
		return text, nil
	},
}}

var errForeignLetter = errors.New("you may not replay jobs of the queue where this one has failed")

// mayReplay reports whether the user may replay jobs that have failed in a queue.
func (s *subject) mayReplay(queue string) bool {
	return s.dashboard.catalog.shows(queue) && s.dashboard.mayUse(s.request, Use{Action: "replay", Queue: queue}) == nil
}

// replayOne replays a dead letter if the user may change the queue to which it goes.
func (s *subject) replayOne(ctx context.Context, id string) error {
	job, err := s.queue.Job(ctx, id)
	if err != nil {
		return err
	}
	if letter, isLetter := job.DeadLetter(); isLetter && !s.mayReplay(letter.QueueName) {
		return errForeignLetter
	}
	_, err = s.queue.ReplayDeadLetter(ctx, id)
	return err
}

// maxReplayed bounds how many letters one action replays.
const maxReplayed = 20_000

func replayedText(replayed, failed int) string {
	text := number(replayed, "dead letter") + " replayed."
	if failed > 0 {
		text += " " + number(failed, "dead letter") + " not replayed."
	}
	return text
}

// letters returns which dead letters the form selects.
func (s *subject) letters() (letterSelection, error) {
	selection := letterSelection{s.form.Get("reason"), s.form.Get("origin")}
	if err := s.dashboard.maySearch("", selection.reason); err != nil {
		return selection, err
	}
	if s.form.Get("all") == "" && selection == (letterSelection{}) {
		return selection, badRequest{errors.New("select dead letters, or a reason, an origin or all")}
	}
	return selection, nil
}
