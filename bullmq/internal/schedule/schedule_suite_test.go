package schedule

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestSchedule(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "schedule")
}
