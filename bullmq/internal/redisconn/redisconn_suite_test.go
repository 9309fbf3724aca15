package redisconn

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestRedisconn(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "redisconn")
}
