//go:build !unix

package contender

// cpuSeconds isn't known here.
func cpuSeconds() float64 { return 0 }
