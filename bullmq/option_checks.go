package bullmq

import (
	"fmt"
	"time"
)

// The checks that all options and arguments share. An error names the option,
// its value and the remedy; the caller says what was not done.

// checkCount refuses a negative number; zero is what 0 means.
func checkCount(name string, n int, zero string) error {
	if n >= 0 {
		return nil
	}
	return fmt.Errorf("%s %d is less than 0; 0 means %s", name, n, zero)
}

// checkMillis refuses a duration that is less than least, 0 or a millisecond,
// or that whole milliseconds can't express: mostly a plain number, which counts
// nanoseconds.
func checkMillis(name string, d, least time.Duration) error {
	switch {
	case d >= least && d%time.Millisecond == 0:
		return nil
	case d < 0 && least == 0:
		return fmt.Errorf("%s %v is less than 0", name, d)
	case d <= 0:
		return fmt.Errorf("%s %v is less than a millisecond", name, d)
	case d < time.Millisecond:
		return fmt.Errorf("%s %v is less than a millisecond; %s", name, d, inMillis)
	default:
		return fmt.Errorf("%s %v is not a whole number of milliseconds; %s", name, d, inMillis)
	}
}

// checkDelay refuses a delay with part of a millisecond. A negative one is none,
// as time.Until returns it.
func checkDelay(name string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return checkMillis(name, d, 0)
}

// checkPriority refuses priorities that jobs can't have.
func checkPriority(priority int) error {
	if priority > maxPriority {
		return fmt.Errorf("priority %d is above the highest, %d", priority, maxPriority)
	}
	return checkCount("priority", priority, "none")
}

const inMillis = "for 500 milliseconds write 500*time.Millisecond, and round a computed duration with Round(time.Millisecond)"

const defaultBatchSize = 100 // calls stay short for the other clients of the server

// checkBatchSize refuses a bad BatchSize and sets the default.
func checkBatchSize(size *int) error {
	if *size == 0 {
		*size = defaultBatchSize
	}
	if *size < 1 || *size > 1000 {
		return fmt.Errorf("BatchSize %d is not between 1 and 1000", *size)
	}
	return nil
}
