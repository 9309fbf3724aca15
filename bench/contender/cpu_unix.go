//go:build unix

package contender

import "syscall"

// CPUSeconds returns the CPU time of this process, in user and system mode.
func CPUSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
