package main

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bench/contender"
)

// The program that is measured is this one, as in main.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == contenderArgument {
		contender.Main(own, os.Args[2:])
		return
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // of the programs that are started: each would sleep for a second
	os.Exit(m.Run())
}

func TestBench(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Bench")
}
