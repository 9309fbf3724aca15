package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// peakBytes returns the peak memory of a process (VmHWM), or 0 on systems without /proc.
func peakBytes(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")))
			return float64(kib) * 1024
		}
	}
	return 0
}
