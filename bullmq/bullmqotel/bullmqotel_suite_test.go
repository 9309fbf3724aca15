package bullmqotel_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestBullMQOTel(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "bullmqotel")
}
