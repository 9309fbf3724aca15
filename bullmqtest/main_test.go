package bullmqtest_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var server *redisserver.Server

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if server, err = redisserver.Start(redisserver.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	return m.Run()
}

// Email and Receipt are the data and the result of the jobs of these tests.
type Email struct {
	To    string `json:"to"`
	Order int    `json:"order,omitempty"`
}

type Receipt struct {
	ID string `json:"id"`
}

var (
	Welcome = bullmq.Define[Email, Receipt]("welcome", bullmq.JobOptions{Attempts: 3, Backoff: bullmq.FixedBackoff(30 * time.Minute)})
	Report  = bullmq.Define[Email, any]("report")
)

// onEach runs a test in the process and on a real Redis.
func onEach(t *testing.T, test func(t *testing.T, kit *bullmqtest.Kit)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		noLeaks(t)
		kit := bullmqtest.New(t, nil)
		if !kit.Redis().InProcess() {
			t.Fatal("the kit uses a real Redis")
		}
		test(t, kit)
	})
	t.Run("on a real Redis", func(t *testing.T) {
		noLeaks(t)
		t.Setenv(bullmqtest.RedisURLVariable, server.URL())
		test(t, bullmqtest.New(t, nil))
	})
}

// noLeaks checks at the end of a test that it has left no goroutine.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(15 * time.Second); runtime.NumGoroutine() > before; {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines are left, %d were there before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// failing is a test that records why it fails.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns the message with which a test fails, or "".
func failure(t *testing.T, test func(t testing.TB)) string {
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f.message
}

func expectFailure(t *testing.T, test func(t testing.TB), parts ...string) {
	t.Helper()
	message := failure(t, test)
	if message == "" {
		t.Fatal("the test does not fail")
	}
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("the message lacks %q:\n%s", part, message)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func equalAll[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
