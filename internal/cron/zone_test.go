package cron_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/cron"
)

var _ = Describe("A time zone", func() {
	DescribeTable("is found by every name that Node accepts", func(name, noonThere string) {
		zone := zoneNamed(name)
		Expect(instant("2024-07-01T12:00:00Z").In(zone).Format("15:04")).To(Equal(noonThere))
	}, EntryDescription("%q"),
		Entry(nil, "Europe/Paris", "14:00"),
		Entry(nil, "europe/paris", "14:00"),
		Entry(nil, "AMERICA/PORT_OF_SPAIN", "08:00"),
		Entry(nil, "antarctica/mcmurdo", "00:00"),
		Entry(nil, "us/east-indiana", "08:00"),
		Entry(nil, "est5edt", "08:00"),
		Entry(nil, "nz-chat", "00:45"),
		Entry(nil, "etc/gmt+5", "07:00"),
		Entry(nil, "PST", "05:00"),
		Entry(nil, "ist", "17:30"),
		Entry(nil, "UTC", "12:00"),
		Entry(nil, "gmt", "12:00"),
		Entry(nil, "UTC+3", "15:00"),
		Entry(nil, "utc-03:30", "08:30"),
		Entry(nil, "utc-0:30", "11:30"),
		Entry(nil, "utc+14", "02:00"),
	)

	DescribeTable("is rejected under other names with an error that names the remedy", func(name string) {
		_, err := cron.LoadZone(name)
		var refused *cron.ZoneError
		Expect(errors.As(err, &refused)).To(BeTrue(), "%v", err)
		Expect(refused.Name).To(Equal(name))
		Expect(err.Error()).To(And(ContainSubstring(name), ContainSubstring("IANA name")))
	}, EntryDescription("%q"),
		Entry(nil, "Europe/Pariss"),
		Entry(nil, "Europe"),
		Entry(nil, "../Europe/Paris"),
		Entry(nil, "posix/Europe/Paris"),
		Entry(nil, "right/Europe/Paris"),
		Entry(nil, "Factory"),
		Entry(nil, "localtime"),
		Entry(nil, "+05:30"),
		Entry(nil, "GMT+3"),
		Entry(nil, "UTC+123"),
		Entry(nil, " UTC"),
	)

	DescribeTable("defaults to the machine's zone:", func(name string) {
		Expect(zoneNamed(name)).To(BeIdenticalTo(time.Local))
	}, EntryDescription("%q"), Entry(nil, ""), Entry(nil, "local"), Entry(nil, "System"), Entry(nil, "default"))
})
