package redisconn

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
)

var _ = Describe("The error of a connection", func() {
	It("shows no password, though the server repeats what it was sent", func() {
		option := func() rueidis.ClientOption {
			return rueidis.ClientOption{Password: "s3cret", Sentinel: rueidis.SentinelOption{Password: "0ther"}}
		}
		Expect(hidePasswords(option, errors.New("unknown command, with args 'AUTH' 's3cret' '0ther'"))).To(MatchError("unknown command, with args 'AUTH' '***' '***'"))
		plain := errors.New("nothing to hide")
		Expect(hidePasswords(option, plain)).To(BeIdenticalTo(plain))
		Expect(hidePasswords(nil, plain)).To(BeIdenticalTo(plain))
	})
})
