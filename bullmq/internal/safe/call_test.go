package safe

import (
	"runtime"
	"strings"
	"testing"
)

func TestCallReturnsWhatTheFunctionPanickedWithAndWhere(t *testing.T) {
	panicked, stack := Call(func() { panic("boom") })
	if panicked != "boom" || !strings.Contains(stack, "call_test.go") {
		t.Errorf("got %v and the stack %s", panicked, stack)
	}
}

func TestCallReturnsWhenTheFunctionEndsItsGoroutine(t *testing.T) {
	if panicked, stack := Call(runtime.Goexit); panicked != nil || stack != "" {
		t.Errorf("got %v and the stack %q", panicked, stack)
	}
}

func TestCallReturnsNothingForAFunctionThatReturns(t *testing.T) {
	if panicked, stack := Call(func() {}); panicked != nil || stack != "" {
		t.Errorf("got %v and the stack %q", panicked, stack)
	}
}
