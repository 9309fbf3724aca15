package parity_test

import (
	"context"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/interop/parity"
)

var _ = Describe("A runner", func() {
	var one, other parity.Endpoint // endpoints whose drivers are called first and second

	BeforeEach(func() {
		one, other = fakeEndpoint("first"), fakeEndpoint("second")
	})

	run := func(ctx context.Context, steps ...string) parity.Result {
		GinkgoHelper()
		return newRunner(one, other).Run(ctx, scenarioOf(steps...))
	}

	It("reports no difference if both endpoints do the same", func(ctx SpecContext) {
		result := run(ctx,
			`["redis",{"both":["SET","k","v"]}]`,
			`["say",{"both":{"id":"1"}}]`,
			`["refuse",{"both":{"message":"no","code":-2}}]`,
			`["$redis",["DEL","k"]]`,
			`["$sleep",1]`)
		Expect(result.Alike()).To(BeTrue(), result.String())
		Expect(result.String()).To(Equal("made-up.json: made up: equal"))
	})

	It("reports the step, the key and both values, and stops there", func(ctx SpecContext) {
		result := run(ctx,
			`["redis",{"both":["HSET","bull:orders:1","name","paint"]}]`,
			`["redis",{"first":["HSET","bull:orders:1","delay","0"],"second":["HSET","bull:orders:1","delay","5"]}]`,
			`["die",{}]`)
		Expect(result.Alike()).To(BeFalse())
		Expect(result.Err).NotTo(HaveOccurred())
		Expect(result.Step).To(Equal(2))
		Expect(result.Differences).To(ConsistOf(parity.Difference{Key: "bull:orders:1", Part: "field delay", Reference: "0", Subject: "5"}))
		Expect(result.String()).To(Equal(`made-up.json: made up
  step 2 of 3: redis {"first":["HSET","bull:orders:1","delay","0"],"second":["HSET","bull:orders:1","delay","5"]}
  bull:orders:1, field delay
    first:   0
    second:  5`))
	})

	It("reports different responses", func(ctx SpecContext) {
		result := run(ctx, `["say",{"first":1,"second":2}]`)
		Expect(result.Differences).To(ConsistOf(parity.Difference{Reference: "1", Subject: "2"}))
	})

	It("notes different error texts, which are not a difference", func(ctx SpecContext) {
		result := run(ctx, `["refuse",{"first":{"message":"no","code":-2},"second":{"message":"never","code":-2}}]`)
		Expect(result.Alike()).To(BeTrue())
		Expect(result.Notes).To(ConsistOf(And(ContainSubstring("step 1, refuse"), ContainSubstring("never"))))
	})

	It("skips the comparison of responses or keyspaces for a step with that flag", func(ctx SpecContext) {
		result := run(ctx,
			`["say",{"first":1,"second":2},{"anyResult":true}]`,
			`["redis",{"first":["SET","k","1"],"second":["SET","k","2"]},{"noSnap":true}]`,
			`["say",{"both":1}]`)
		Expect(result.Step).To(Equal(3))
		Expect(result.Differences).To(ConsistOf(HaveField("Key", "k")))
	})

	DescribeTable("reads keys of every type:", func(ctx SpecContext, first, second string) {
		runner := newRunner(one, other)
		result := runner.Run(ctx, scenarioOf(`["redis",{"first":`+first+`,"second":`+second+`}]`))
		Expect(result.Err).NotTo(HaveOccurred())
		Expect(result.Differences).To(ConsistOf(HaveField("Key", "k")))
		same := runner.Run(ctx, scenarioOf(`["redis",{"both":`+first+`}]`))
		Expect(same.Alike()).To(BeTrue(), same.String())
	},
		Entry("string", `["SET","k","1"]`, `["SET","k","2"]`),
		Entry("list", `["RPUSH","k","1","2"]`, `["LPUSH","k","1","2"]`),
		Entry("set", `["SADD","k","1","2"]`, `["SADD","k","1","3"]`),
		Entry("sorted set", `["ZADD","k","1.5","a"]`, `["ZADD","k","1.25","a"]`),
		Entry("hash", `["HSET","k","f","1"]`, `["HSET","k","f","2"]`),
		Entry("stream", `["XADD","k","*","event","a","jobId","1"]`, `["XADD","k","*","jobId","1","event","a"]`),
		Entry("expiry", `["SET","k","1","PX","60000"]`, `["SET","k","1","PX","63000"]`),
		Entry("expiry of one key only", `["SET","k","1","PX","60000"]`, `["SET","k","1"]`),
	)

	It("determines the time to live that a key was given, even if the driver is slow", func(ctx SpecContext) {
		result := run(ctx,
			`["redis",{"both":["SET","k","1","PX","1000000"]}]`,
			`["$sleep",300]`,
			`["say",{"both":1}]`,
			`["redis",{"first":["PEXPIRE","k","500000"],"second":["PEXPIRE","k","500000"]}]`,
			`["$sleep",300]`,
			`["say",{"both":1}]`,
			`["redis",{"first":["PEXPIRE","k","600000"],"second":["PEXPIRE","k","620000"]}]`)
		Expect(result.Step).To(Equal(7), result.String())
		Expect(result.Differences).To(ConsistOf(HaveField("Part", "expiry")))
	})

	It("empties both servers before each scenario", func(ctx SpecContext) {
		runner := newRunner(one, other)
		Expect(runner.Run(ctx, scenarioOf(`["redis",{"both":["SET","left","over"]}]`)).Alike()).To(BeTrue())
		Expect(runner.Run(ctx, scenarioOf(`["say",{"both":1}]`)).Alike()).To(BeTrue())
		for _, endpoint := range []parity.Endpoint{one, other} {
			Expect(keysAt(endpoint.Redis)).To(BeEmpty())
		}
	})

	DescribeTable("gives each scenario a driver in its initial state", func(ctx SpecContext, resets bool) {
		one.Resets, other.Resets = resets, resets
		started := 0
		command := one.Command
		one.Command = func() *exec.Cmd { started++; return command() }

		runner := newRunner(one, other)
		for range 3 {
			result := runner.Run(ctx, scenarioOf(`["age",{},{"anyResult":true}]`, `["age",{}]`))
			Expect(result.Alike()).To(BeTrue(), result.String())
		}
		if resets {
			Expect(started).To(Equal(1))
		} else {
			Expect(started).To(Equal(3))
		}
	},
		Entry("by resetting a driver that supports it", true),
		Entry("by restarting other drivers", false),
	)

	It("detects a reset that is incomplete", func(ctx SpecContext) {
		one.Resets = true
		runner := newRunner(one, other)
		scenario := scenarioOf(`["age",{}]`)
		Expect(runner.Run(ctx, scenario).Alike()).To(BeTrue())
		// The fake driver counts the request that checks whether a new driver is ready. A reused driver
		// does not receive it.
		Expect(runner.Run(ctx, scenario).Alike()).To(BeFalse())
	})

	DescribeTable("describes the fault of a driver and continues with a new one", func(ctx SpecContext, op, complaint string) {
		one.Resets, other.Resets = true, true
		runner, err := parity.New(one, other, &parity.Options{StepTimeout: 2 * time.Second})
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(runner.Close()).To(Succeed()) }()

		result := runner.Run(ctx, scenarioOf(`["say",{"both":1}]`, `["`+op+`",{}]`))
		Expect(result.Alike()).To(BeFalse())
		Expect(result.Step).To(Equal(2))
		Expect(result.String()).To(And(ContainSubstring("first: the driver "), ContainSubstring(complaint)))

		after := runner.Run(ctx, scenarioOf(`["say",{"both":1}]`))
		Expect(after.Alike()).To(BeTrue(), after.String())
	},
		Entry("that hangs", "hang", "sent no response within 2s"),
		Entry("that dies", "die", "exited without a response (exit status 3); end of its log:\n  the fake driver exits as requested"),
		Entry("that writes something other than JSON", "babble", `wrote a line that is not a response: "not JSON`),
		Entry("that sends the response to a different request", "confuse", "sent the response to request 4 instead of 3"),
		Entry("that sends no response", "unheard of", "sent no response within"),
	)

	It("reports that a driver cannot be started", func(ctx SpecContext) {
		other.Command = func() *exec.Cmd { return exec.Command("/no/such/driver") }
		result := run(ctx, `["say",{"both":1}]`)
		Expect(result.Alike()).To(BeFalse())
		Expect(result.String()).To(And(ContainSubstring("second: "), ContainSubstring("/no/such/driver")))
	})

	It("reports that a command of the scenario failed", func(ctx SpecContext) {
		result := run(ctx, `["$redis",["LPUSH","k","1"]]`, `["$redis",["INCR","k"]]`)
		Expect(result.Step).To(Equal(2))
		Expect(result.Err).To(MatchError(ContainSubstring("WRONGTYPE")))
	})

	It("rejects a server that contains keys", func() {
		Expect(redisDo(other.Redis, "SET", "precious", "1")).To(Succeed())
		_, err := parity.New(one, other, nil)
		Expect(err).To(MatchError(And(ContainSubstring("second"), ContainSubstring("1 keys"))))
		Expect(keysAt(other.Redis)).To(ConsistOf("precious"))
	})

	It("rejects the same server for both endpoints", func() {
		other.Redis = one.Redis
		_, err := parity.New(one, other, nil)
		Expect(err).To(MatchError(ContainSubstring(one.Redis)))
	})

	It("names the server that it cannot reach", func() {
		other.Redis = "127.0.0.1:1"
		_, err := parity.New(one, other, nil)
		Expect(err).To(MatchError(And(ContainSubstring("second"), ContainSubstring("127.0.0.1:1"))))
	})

	It("counts the scenarios without differences", func() {
		Expect(parity.Summary([]parity.Result{{}, {Differences: []parity.Difference{{}}}, {Err: context.Canceled}})).
			To(Equal("1 of 3 scenarios equal"))
	})
})

func redisDo(address string, command ...string) error {
	_, err := redisStrings(address, command...)
	return err
}

func keysAt(address string) []string {
	GinkgoHelper()
	keys, err := redisStrings(address, "KEYS", "*")
	Expect(err).NotTo(HaveOccurred())
	return keys
}

func redisStrings(address string, command ...string) ([]string, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	response := client.Do(context.Background(), client.B().Arbitrary(command...).Build())
	if err := response.Error(); err != nil {
		return nil, err
	}
	texts, err := response.AsStrSlice()
	if err != nil {
		return nil, nil // a response that is not a list
	}
	return texts, nil
}
