//go:build !unix

package contender

// CPUSeconds is not supported on this system.
func CPUSeconds() float64 { return 0 }
