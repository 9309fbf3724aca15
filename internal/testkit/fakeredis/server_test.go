package fakeredis_test

import (
	"context"
	"math"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/fakeredis"
	"github.com/17a2ac88/bullmq-go/internal/testkit/leaks"
	"github.com/17a2ac88/bullmq-go/internal/testkit/suite"
)

func TestFakeRedis(t *testing.T) {
	RegisterFailHandler(Fail)
	suite.RunWhole(t, "internal/testkit/fakeredis")
}

var _ = BeforeEach(leaks.Check)

var _ = Describe("A fake Redis server", func() {
	var server fakeredis.Server
	var client rueidis.Client
	ask := func() rueidis.RedisResult {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return client.Do(ctx, client.B().Get().Key("k").Build())
	}
	BeforeEach(func() {
		server = fakeredis.Server{}
		var err error
		client, err = server.Client()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(client.Close)
	})

	It("sends its scripted replies in order and then errors", func() {
		server.Script(fakeredis.Encode("text", -7, nil, true, []any{"a", []string{"b"}, 2.5}, fakeredis.Map{"k", "v"}, fakeredis.Err("WRONGTYPE no")))
		Expect(ask().ToString()).To(Equal("text"))
		Expect(ask().AsInt64()).To(Equal(int64(-7)))
		Expect(rueidis.IsRedisNil(ask().Error())).To(BeTrue())
		Expect(ask().AsBool()).To(BeTrue())
		Expect(ask().ToAny()).To(Equal([]any{"a", []any{"b"}, 2.5}))
		Expect(ask().AsStrMap()).To(Equal(map[string]string{"k": "v"}))
		Expect(ask().Error()).To(MatchError("WRONGTYPE no"))
		Expect(server.Calls()).To(Equal(7))
		Expect(ask().Error()).To(MatchError(ContainSubstring("no scripted reply is left")))
	})

	It("sends a valid reply for any script", func() {
		for b := range 256 {
			server.Script([]byte{byte(b), byte(b), byte(b), 1, 2})
			Expect(ask().NonRedisError()).NotTo(HaveOccurred(), "byte %d", b)
		}
		server.Script(fakeredis.Encode(math.Inf(-1), math.NaN(), string(make([]byte, 1000))))
		Expect(ask().AsFloat64()).To(Equal(math.Inf(-1)))
		Expect(ask().NonRedisError()).NotTo(HaveOccurred())
		Expect(ask().ToString()).To(HaveLen(1000))
	})
})
