package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// limitLine has the limits of a queue in JSON. A nil limit is none.
type limitLine struct {
	Queue          string     `json:"queue"`
	Concurrency    *int       `json:"concurrency"`
	Rate           *rateLimit `json:"rate"`
	LimitedSeconds float64    `json:"limitedSeconds,omitempty"`
	DryRun         bool       `json:"dryRun,omitempty"`
}

type rateLimit struct {
	Max        int   `json:"max"`
	DurationMS int64 `json:"durationMs"`
}

const none = "none"

func newLimit(c *client) *cobra.Command {
	var concurrency, rate string
	var end, dry bool
	command := &cobra.Command{
		Use:   "limit QUEUE",
		Short: "Show, set or remove the global limits of a queue",
		Long: "Show, set or remove the limits of a queue, which hold for all its workers together.\n\n" +
			"Without flags it shows them.",
		Example: "  bullmq limit orders --concurrency 20 --rate 100/1m\n  bullmq limit orders --concurrency none --rate none",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			running, err := parseConcurrency(concurrency)
			if err != nil {
				return err
			}
			limiter, err := parseRate(rate)
			if err != nil {
				return err
			}
			return c.withQueue(command, args[0], func(ctx context.Context, queue *bullmq.Queue) error {
				line, err := limitsOf(ctx, queue)
				if err != nil {
					return err
				}
				if concurrency != "" {
					line.Concurrency = running
				}
				if rate != "" {
					line.Rate = limiter
				}
				if end {
					line.LimitedSeconds = 0
				}
				if line.DryRun = dry; !dry {
					if err := setLimits(ctx, queue, line, concurrency != "", rate != "", end); err != nil {
						return err
					}
				}
				return c.writeLimits(command, line)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&concurrency, "concurrency", "", "jobs that run at the same time, or none to remove the limit; 0 lets no job start")
	flags.StringVar(&rate, "rate", "", "jobs that start in a time, such as 100/1m, or none to remove the limit")
	flags.BoolVar(&end, "end", false, "end the wait of a rate limit that is in effect")
	flags.BoolVar(&dry, "dry-run", false, "show the limits as they would be, and change nothing")
	return command
}

// parseConcurrency returns nil for no limit.
func parseConcurrency(text string) (*int, error) {
	if text == "" || text == none {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, usageError{fmt.Errorf("--concurrency is %q; give a number or %s", text, none)}
	}
	return &n, nil
}

// parseRate returns nil for no limit.
func parseRate(text string) (*rateLimit, error) {
	if text == "" || text == none {
		return nil, nil
	}
	number, duration, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if duration != "" && (duration[0] < '0' || duration[0] > '9') {
		duration = "1" + duration // as in 100/s
	}
	d, failed := parseAge(duration)
	if errors.Join(err, failed) != nil || n < 1 || d < time.Millisecond {
		return nil, usageError{fmt.Errorf("--rate is %q; give jobs per time, such as 100/1m, or %s", text, none)}
	}
	return &rateLimit{n, d.Milliseconds()}, nil
}

func limitsOf(ctx context.Context, queue *bullmq.Queue) (limitLine, error) {
	meta, err := queue.Meta(ctx)
	if err != nil {
		return limitLine{}, err
	}
	line := limitLine{Queue: queue.Name(), Concurrency: meta.Concurrency}
	if meta.RateLimit != nil {
		line.Rate = &rateLimit{meta.RateLimit.Max, meta.RateLimit.Duration.Milliseconds()}
	}
	left, err := queue.RateLimitTTL(ctx, 0)
	line.LimitedSeconds = left.Seconds()
	return line, err
}

func setLimits(ctx context.Context, queue *bullmq.Queue, line limitLine, concurrency, rate, end bool) (err error) {
	switch {
	case concurrency && line.Concurrency == nil:
		err = queue.RemoveGlobalConcurrency(ctx)
	case concurrency:
		err = queue.SetGlobalConcurrency(ctx, *line.Concurrency)
	}
	if err != nil {
		return err
	}
	switch {
	case rate && line.Rate == nil:
		err = queue.RemoveGlobalRateLimit(ctx)
	case rate:
		err = queue.SetGlobalRateLimit(ctx, bullmq.Limiter{Max: line.Rate.Max, Duration: time.Duration(line.Rate.DurationMS) * time.Millisecond})
	}
	if err == nil && end {
		_, err = queue.RemoveRateLimitKey(ctx)
	}
	return err
}

func (c *client) writeLimits(command *cobra.Command, line limitLine) error {
	return list(c, command, []limitLine{line}, []string{"QUEUE", "CONCURRENCY", "RATE", "LIMITED", ""}, func(l limitLine) []string {
		concurrency, rate, limited, remark := none, none, "", ""
		if l.Concurrency != nil {
			concurrency = fmt.Sprint(*l.Concurrency)
		}
		if l.Rate != nil {
			rate = jobs(l.Rate.Max) + " in " + short(time.Duration(l.Rate.DurationMS)*time.Millisecond)
		}
		if l.LimitedSeconds > 0 {
			limited = "for " + short(time.Duration(l.LimitedSeconds*float64(time.Second)))
		}
		switch {
		case l.DryRun:
			remark = "nothing was changed"
		case l.LimitedSeconds > 0 && l.Rate == nil:
			remark = "the wait of a limit that was removed, or of a worker: --end ends it"
		}
		return []string{l.Queue, concurrency, rate, limited, remark}
	})
}
