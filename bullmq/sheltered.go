package bullmq

// sheltered calls a function of the user's and answers what it panicked with. It
// gives it a goroutine of its own, for nothing can keep one that calls
// runtime.Goexit, as FailNow of the testing package does.
func sheltered(call func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		call()
	}()
	<-done
	return panicked
}
