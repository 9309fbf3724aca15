package cron_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the specs must not depend on the machine's database

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestCron(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "cron")
}

func zoneNamed(name string) *time.Location {
	GinkgoHelper()
	zone, err := cron.LoadZone(name)
	Expect(err).NotTo(HaveOccurred())
	return zone
}

func instant(text string) time.Time {
	GinkgoHelper()
	at, err := time.Parse(time.RFC3339, text)
	Expect(err).NotTo(HaveOccurred())
	return at
}
