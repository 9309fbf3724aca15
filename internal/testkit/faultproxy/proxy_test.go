package faultproxy

import (
	"context"
	"net"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

var _ = Describe("A proxy", func() {
	It("forwards everything when it has no faults", func() {
		proxy, server := link()
		through, direct := dial(proxy.Addr()), dial(server.Addr())
		through.do("HELLO 3")
		direct.do("HELLO 3")
		for _, command := range []string{"SET k " + strings.Repeat("v", 1<<20), "HSET h a 1 b 2", "ZADD z 1.5 a"} {
			direct.do(command)
		}
		for _, command := range []string{"PING", "GET k", "GET none", "HGETALL h", "ZRANGE z 0 -1 WITHSCORES", "ZSCORE z a", "LPOP none", "NOSUCH", "CONFIG GET save"} {
			Expect(through.do(command) == direct.do(command)).To(BeTrue(), command) // Equal would print a megabyte
		}
		Expect(proxy.Connections()).To(Equal(1))
	})

	It("serves blocking and pipelined commands at the same time", func() {
		proxy, _ := link()
		redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
		Expect(err).NotTo(HaveOccurred())
		defer redis.Close()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		popped := make(chan error, 1)
		go func() {
			popped <- redis.Do(ctx, redis.B().Blpop().Key("list").Timeout(0).Build()).Error()
		}()
		var commands rueidis.Commands
		for range 500 {
			commands = append(commands, redis.B().Incr().Key("n").Build())
		}
		for n, result := range redis.DoMulti(ctx, commands...) {
			Expect(result.AsInt64()).To(BeEquivalentTo(n + 1))
		}
		Expect(redis.Do(ctx, redis.B().Rpush().Key("list").Element("x").Build()).Error()).To(Succeed())
		Eventually(popped).WithTimeout(timeout).Should(Receive(BeNil()))
	})

	It("closes the client's connection when the server stops and works again when it restarts", func() {
		proxy, server := link()
		through := dial(proxy.Addr())
		Expect(through.do("PING")).To(Equal("+PONG\r\n"))
		server.Kill()
		Expect(through.rest()).To(BeEmpty())
		Expect(dial(proxy.Addr()).rest()).To(BeEmpty(), "no server is running")
		Expect(server.Start()).To(Succeed())
		Expect(dial(proxy.Addr()).do("PING")).To(Equal("+PONG\r\n"))
	})

	It("closes the server's connection when the client disconnects", func() {
		proxy, server := link()
		through := dial(proxy.Addr())
		through.do("PING")
		Expect(through.Close()).To(Succeed())
		Eventually(proxy.Connections).WithTimeout(timeout).Should(BeZero())
		Expect(proxy.Accepted()).To(Equal(1))
		Eventually(func() string { return dial(server.Addr()).do("INFO clients") }).
			WithTimeout(timeout).Should(ContainSubstring("connected_clients:1\r\n"))
	})

	It("closes its listener and every connection on Close", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		through.do("PING")
		proxy.Close()
		Expect(through.rest()).To(BeEmpty())
		Expect(proxy.Connections()).To(BeZero())
		_, err := net.Dial("tcp", proxy.Addr())
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
		Expect(proxy.Set(Faults{})).To(Succeed())
		_, err = net.Dial("tcp", proxy.Addr())
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
		proxy.Close()
	})
})

var _ = Describe("A proxy with Delay", func() {
	It("holds commands and replies until the fault ends", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		through.do("PING")
		Expect(proxy.Set(Faults{Delay: 150 * time.Millisecond})).To(Succeed())
		Expect(took(func() { through.do("PING") })).To(BeNumerically(">=", 300*time.Millisecond))
		Expect(proxy.Set(Faults{})).To(Succeed())
		quickest := time.Hour // of some: a busy machine may hold one up
		for range 5 {
			quickest = min(quickest, took(func() { through.do("PING") }))
		}
		Expect(quickest).To(BeNumerically("<", 300*time.Millisecond))
	})

	It("delays data that arrives together once", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		Expect(proxy.Set(Faults{Delay: 100 * time.Millisecond})).To(Succeed())
		Expect(took(func() {
			through.send(many("PING", 50)...)
			for range 50 {
				through.reply()
			}
		})).To(BeNumerically("<", 50*100*time.Millisecond))
	})
})

var _ = Describe("CutAll on a proxy", func() {
	It("closes open connections and accepts new ones", func() {
		proxy, _ := link()
		first, second := dial(proxy.Addr()), dial(proxy.Addr())
		first.do("PING")
		second.do("PING")
		proxy.CutAll()
		Expect(first.rest()).To(BeEmpty())
		Expect(second.rest()).To(BeEmpty())
		Expect(dial(proxy.Addr()).do("PING")).To(Equal("+PONG\r\n"))
	})
})

var _ = Describe("CutAfter on a proxy", func() {
	It("cuts once in the middle of a reply", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		through.do("SET k value")
		cut := proxy.CutAfter(len("$5\r\nva"))
		Expect(cut).NotTo(BeClosed())
		through.send("GET k")
		Expect(through.rest()).To(Equal("$5\r\nva"))
		Eventually(cut).WithTimeout(timeout).Should(BeClosed())
		Expect(dial(proxy.Addr()).do("GET k")).To(Equal("$5\r\nvalue\r\n"))
	})

	It("counts bytes over all replies and connections and cuts right after the last one", func() {
		proxy, _ := link()
		first, second := dial(proxy.Addr()), dial(proxy.Addr())
		cut := proxy.CutAfter(3 * len("+PONG\r\n"))
		Expect(first.do("PING")).To(Equal("+PONG\r\n"))
		Expect(second.do("PING")).To(Equal("+PONG\r\n"))
		second.send("PING")
		Expect(second.rest()).To(Equal("+PONG\r\n"))
		Eventually(cut).WithTimeout(timeout).Should(BeClosed())
		Expect(first.do("PING")).To(Equal("+PONG\r\n"))
	})

	It("with zero bytes loses the next reply", func() {
		proxy, server := link()
		through := dial(proxy.Addr())
		proxy.CutAfter(0)
		through.send("INCR n")
		Expect(through.rest()).To(BeEmpty())
		Expect(dial(server.Addr()).do("GET n")).To(Equal("$1\r\n1\r\n"))
	})
})

var _ = Describe("A proxy with SwallowReplies", func() {
	It("forwards commands, drops replies, and closes the connections that lost one when it ends", func() {
		proxy, server := link()
		loser, idle := dial(proxy.Addr()), dial(proxy.Addr())
		loser.do("PING")
		idle.do("PING")
		Expect(proxy.Set(Faults{SwallowReplies: true})).To(Succeed())
		loser.send("INCR n")
		Eventually(func() string { return dial(server.Addr()).do("GET n") }).WithTimeout(timeout).Should(Equal("$1\r\n1\r\n"))
		Expect(loser.receives()).To(BeFalse())
		Expect(proxy.Set(Faults{})).To(Succeed())
		Expect(loser.rest()).To(BeEmpty())
		Expect(idle.do("INCR n")).To(Equal(":2\r\n"))
	})
})

var _ = Describe("LoseReply on a proxy", func() {
	It("cuts after the command ran and before its reply, once the replies to earlier commands were forwarded", func() {
		proxy, server := link()
		through, other := dial(proxy.Addr()), dial(proxy.Addr())
		other.do("PING")
		lost := proxy.LoseReply("incr n")
		through.send("SET a 1", "GET a", "INCR n", "GET a")
		Expect(through.rest()).To(Equal("+OK\r\n$1\r\n1\r\n"))
		Eventually(lost).WithTimeout(timeout).Should(BeClosed())
		Expect(dial(server.Addr()).do("GET n")).To(Equal("$1\r\n1\r\n"))
		Expect(other.do("INCR n")).To(Equal(":2\r\n"), "it applies to one command")
	})

	It("matches a script by its hash", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		through.send()
		_, err := through.Write([]byte(encode("SCRIPT", "LOAD", "return redis.call('incr', KEYS[1])")))
		Expect(err).NotTo(HaveOccurred())
		sha := strings.Split(through.reply(), "\r\n")[1]
		lost := proxy.LoseReply("evalsha " + sha)
		Expect(through.do("GET n")).To(Equal("$-1\r\n"))
		Expect(lost).NotTo(BeClosed())
		through.send("EVALSHA " + sha + " 1 n")
		Expect(through.rest()).To(BeEmpty())
		Expect(dial(proxy.Addr()).do("GET n")).To(Equal("$1\r\n1\r\n"))
	})

	It("loses the reply of a transaction", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		proxy.LoseReply("EXEC")
		through.send("MULTI", "INCR n", "INCR n", "EXEC")
		Expect(through.rest()).To(Equal("+OK\r\n+QUEUED\r\n+QUEUED\r\n"))
		Expect(dial(proxy.Addr()).do("GET n")).To(Equal("$1\r\n2\r\n"))
	})

	It("does not count a server push as a reply", func() {
		proxy, server := link()
		through := dial(proxy.Addr())
		through.do("HELLO 3")
		Expect(through.do("CLIENT TRACKING ON BCAST")).To(Equal("+OK\r\n"))
		dial(server.Addr()).do("SET key 1")
		Expect(through.reply()).To(HavePrefix(">"))
		proxy.LoseReply("get key")
		through.send("PING", "GET key")
		Expect(through.rest()).To(Equal("+PONG\r\n"))
	})

	It("keeps the trap of a reply that another cut prevented", func() {
		proxy, _ := link()
		first, second := proxy.LoseReply("incr a"), proxy.LoseReply("incr b")
		through := dial(proxy.Addr())
		through.send("INCR a", "INCR b")
		Expect(through.rest()).To(BeEmpty())
		Eventually(first).WithTimeout(timeout).Should(BeClosed())
		Expect(second).NotTo(BeClosed())
		Eventually(func() int { proxy.mu.Lock(); defer proxy.mu.Unlock(); return len(proxy.traps) }).Should(Equal(1))
		again := dial(proxy.Addr())
		again.send("INCR b")
		Expect(again.rest()).To(BeEmpty())
		Eventually(second).WithTimeout(timeout).Should(BeClosed())
	})

	It("keeps several traps, each for one command", func() {
		proxy, server := link()
		proxy.LoseReply("incr a")
		proxy.LoseReply("incr a")
		for range 2 {
			through := dial(proxy.Addr())
			through.send("INCR a")
			Expect(through.rest()).To(BeEmpty())
		}
		Expect(dial(proxy.Addr()).do("INCR a")).To(Equal(":3\r\n"))
		Expect(dial(server.Addr()).do("GET a")).To(Equal("$1\r\n3\r\n"))
	})
})

var _ = Describe("HangReply on a proxy", func() {
	It("forwards the command and then nothing more on that connection only", func() {
		proxy, server := link()
		hung := proxy.HangReply("incr n")
		through := dial(proxy.Addr())
		through.send("INCR n", "PING")
		Eventually(hung).WithTimeout(timeout).Should(BeClosed())
		Expect(through.receives()).To(BeFalse())
		Expect(dial(proxy.Addr()).do("GET n")).To(Equal("$1\r\n1\r\n"))
		Expect(dial(server.Addr()).do("GET n")).To(Equal("$1\r\n1\r\n"))
		proxy.CutAll()
		Expect(through.rest()).To(BeEmpty())
	})
})

var _ = Describe("LoseCommand on a proxy", func() {
	It("cuts before the server receives the command", func() {
		proxy, server := link()
		through := dial(proxy.Addr())
		lost := proxy.LoseCommand("incr n")
		Expect(through.do("SET a 1")).To(Equal("+OK\r\n"))
		through.send("INCR n")
		Expect(through.rest()).To(BeEmpty())
		Eventually(lost).WithTimeout(timeout).Should(BeClosed())
		Expect(dial(server.Addr()).do("GET n")).To(Equal("$-1\r\n"))
		Expect(dial(proxy.Addr()).do("INCR n")).To(Equal(":1\r\n"))
	})
})

var _ = Describe("A proxy with Refuse", func() {
	It("rejects new connections, keeps open ones, and ends on the same port", func() {
		proxy, _ := link()
		old := dial(proxy.Addr())
		old.do("PING")
		Expect(proxy.Set(Faults{Refuse: true})).To(Succeed())
		_, err := net.Dial("tcp", proxy.Addr())
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
		Expect(old.do("PING")).To(Equal("+PONG\r\n"))
		Expect(proxy.Set(Faults{})).To(Succeed())
		Expect(dial(proxy.Addr()).do("PING")).To(Equal("+PONG\r\n"))
	})
})

var _ = Describe("A proxy with Trickle", func() {
	It("forwards a whole reply a few bytes at a time", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		value := strings.Repeat("v", 300)
		through.do("SET k " + value)
		Expect(proxy.Set(Faults{Trickle: 10})).To(Succeed())
		var reply string
		Expect(took(func() { reply = through.do("GET k") })).To(BeNumerically(">=", 30*trickleEvery))
		Expect(reply).To(Equal("$300\r\n" + value + "\r\n"))
	})

	It("forwards the rest at once when the fault ends", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		through.do("SET k " + strings.Repeat("v", 1<<20))
		Expect(proxy.Set(Faults{Trickle: 1})).To(Succeed())
		through.send("GET k")
		Expect(through.replies.Peek(4)).To(BeEquivalentTo("$104"))
		Expect(proxy.Set(Faults{})).To(Succeed())
		Expect(through.reply()).To(HaveLen(len("$1048576\r\n") + 1<<20 + len("\r\n")))
	})
})

var _ = Describe("A proxy with BlackHole", func() {
	It("accepts connections without replying and forwards the held data when the fault ends", func() {
		proxy, server := link()
		old := dial(proxy.Addr())
		old.do("PING")
		Expect(proxy.Set(Faults{BlackHole: true})).To(Succeed())
		young := dial(proxy.Addr())
		old.send("INCR n")
		young.send("INCR n")
		Expect(old.receives()).To(BeFalse())
		Expect(young.receives()).To(BeFalse())
		Expect(dial(server.Addr()).do("GET n")).To(Equal("$-1\r\n"), "the server received nothing either")
		Expect(proxy.Set(Faults{})).To(Succeed())
		Expect([]string{old.reply(), young.reply()}).To(ConsistOf(":1\r\n", ":2\r\n"))
	})

	It("ends with CutAll too", func() {
		proxy, _ := link()
		through := dial(proxy.Addr())
		through.do("PING")
		Expect(proxy.Set(Faults{BlackHole: true})).To(Succeed())
		through.send("PING")
		proxy.CutAll()
		Expect(through.rest()).To(BeEmpty())
		Eventually(proxy.Connections).WithTimeout(timeout).Should(BeZero())
	})
})

func took(what func()) time.Duration {
	begun := time.Now()
	what()
	return time.Since(begun)
}

func many(command string, count int) []string {
	commands := make([]string, count)
	for n := range commands {
		commands[n] = command
	}
	return commands
}

var _ = Describe("Forward on a proxy", func() {
	It("leads new connections to another server", func() {
		proxy, first := link()
		second, err := redisserver.Start(redisserver.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(second.Close)
		dial(first.Addr()).do("SET name first")
		dial(second.Addr()).do("SET name second")
		through := dial(proxy.Addr())
		Expect(through.do("GET name")).To(Equal("$5\r\nfirst\r\n"))
		proxy.Forward(second.Addr())
		Expect(through.do("GET name")).To(Equal("$5\r\nfirst\r\n"))
		proxy.CutAll()
		Expect(dial(proxy.Addr()).do("GET name")).To(Equal("$6\r\nsecond\r\n"))
	})
})
