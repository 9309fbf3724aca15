package nodeprocess

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

// ownerVariable makes the test binary start a program and wait to be killed.
const ownerVariable = "NODEPROCESS_TEST_OWNER"

func TestMain(m *testing.M) {
	script := os.Getenv(ownerVariable)
	if script == "" {
		os.Exit(m.Run())
	}
	process, err := Start(script, "-stubborn")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(process.child.Pid())
	time.Sleep(time.Minute) // longer than the spec that kills it
}

func TestNodeProcess(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(10 * time.Second)
	suite.RunWhole(t, "nodeprocess")
}

var _ = BeforeEach(leaks.Check)

type message = map[string]any

func script() string {
	GinkgoHelper()
	path, err := filepath.Abs(filepath.Join("testdata", "program.mjs"))
	Expect(err).NotTo(HaveOccurred())
	return path
}

// start runs the test program until the spec ends.
func start(arguments ...string) *Process {
	GinkgoHelper()
	process, err := Start(script(), arguments...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Kill)
	return process
}

func within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	DeferCleanup(cancel)
	return ctx
}
