//go:build !linux

package timing

import "time"

func sleepExactly(wait time.Duration) { time.Sleep(wait) }
