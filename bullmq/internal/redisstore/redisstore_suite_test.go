package redisstore

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestRedisstore(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if testing.Short() {
		suite.LabelFilter = "!slow"
	}
	RunSpecs(t, "redisstore", suite, reporter)
}
