package bullmq

import "runtime/debug"

// sheltered calls a function of the user's and answers what it panicked with,
// and where. It gives it a goroutine of its own, for nothing can keep one that calls
// runtime.Goexit, as FailNow of the testing package does.
func sheltered(call func()) (panicked any, stack string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if panicked = recover(); panicked != nil {
				stack = string(debug.Stack())
			}
		}()
		call()
	}()
	<-done
	return panicked, stack
}
