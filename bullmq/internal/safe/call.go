// Package safe runs functions that may panic, end their goroutine, or not return.
package safe

import "runtime/debug"

// Call calls a function. If the function panics, Call returns the value of the panic and the
// stack. The function runs in a separate goroutine, because it may call [runtime.Goexit], as
// FailNow of package testing does.
func Call(call func()) (panicked any, stack string) {
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
