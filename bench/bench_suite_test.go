package main

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

// TestMain runs a contender if the arguments ask for it, as main does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == contenderArgument {
		contender.Main(own, os.Args[2:])
		return
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each started program would sleep for a second before it exits
	os.Exit(m.Run())
}

func TestBench(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "Bench")
}
