//go:build !linux

package bullmq

import "time"

func sleepExactly(wait time.Duration) { time.Sleep(wait) }
