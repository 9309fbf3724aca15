//go:build !unix

package contender

// cpuSeconds is not supported on this system.
func cpuSeconds() float64 { return 0 }
