package redisserver

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/rueidis"
)

var _ = Describe("A server", func() {
	It("serves commands on its address as soon as Start returns", func() {
		Expect(do(client(start(Options{})), "PING")).To(Equal("PONG"))
	})

	It("runs next to others", func() {
		first, second := client(start(Options{})), client(start(Options{}))
		Expect(do(first, "SET", "who", "first")).To(Equal("OK"))
		_, err := do(second, "GET", "who")
		Expect(err).To(MatchError(rueidis.Nil))
	})

	It("listens on 127.0.0.1 only", func() {
		server := start(Options{})
		conn, err := net.DialTimeout("tcp", "127.0.0.2:"+strconv.Itoa(server.Port()), time.Second)
		if err == nil {
			conn.Close()
		}
		Expect(err).To(HaveOccurred())
	})

	It("keeps its port after Stop, Kill and Restart", func() {
		server := start(Options{})
		addr := server.Addr()
		server.Stop()
		Expect(dial(addr)).NotTo(Succeed())
		Expect(server.Start()).To(Succeed())
		Expect(do(client(server), "PING")).To(Equal("PONG"))
		server.Kill()
		Expect(dial(addr)).NotTo(Succeed())
		Expect(server.Start()).To(Succeed())
		Expect(do(client(server), "PING")).To(Equal("PONG"))
		Expect(server.Restart()).To(Succeed())
		Expect(do(client(server), "PING")).To(Equal("PONG"))
		Expect(server.Addr()).To(Equal(addr))
	})

	It("restarts while a client of the old process is still connected", func() {
		server := start(Options{})
		conn, err := net.Dial("tcp", server.Addr())
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(server.Restart()).To(Succeed())
		Expect(dial(server.Addr())).To(Succeed())
	})

	It("loses its data on a restart without an append-only file", func() {
		server := start(Options{})
		Expect(do(client(server), "SET", "key", "value")).To(Equal("OK"))
		Expect(server.Restart()).To(Succeed())
		_, err := do(client(server), "GET", "key")
		Expect(err).To(MatchError(rueidis.Nil))
	})

	It("keeps its data with an append-only file even if it is killed", func() {
		server := start(Options{AppendOnly: true})
		Expect(do(client(server), "SET", "key", "value")).To(Equal("OK"))
		server.Kill()
		Expect(server.Start()).To(Succeed())
		Expect(do(client(server), "GET", "key")).To(Equal("value"))
	})

	It("requires the configured password", func() {
		server := start(Options{Password: `p@ss "word"`})
		Expect(do(connect(rueidis.ClientOption{InitAddress: []string{server.Addr()}, Password: `p@ss "word"`}), "PING")).To(Equal("PONG"))
		Expect(do(client(server), "PING")).To(Equal("PONG"), "the URL includes the password")
		_, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		Expect(err).To(MatchError(ContainSubstring("NOAUTH")))
	})

	It("enforces its ACL rules", func() {
		server := start(Options{ACL: []string{"worker on >secret ~bull:* +@all -info"}})
		worker := connect(rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "worker", Password: "secret"})
		Expect(do(worker, "SET", "bull:a", "1")).To(Equal("OK"))
		_, err := do(worker, "SET", "other", "1")
		Expect(err).To(MatchError(ContainSubstring("NOPERM")))
		_, err = do(worker, "INFO")
		Expect(err).To(MatchError(ContainSubstring("NOPERM")))
	})

	It("accepts additional lines of redis.conf", func() {
		server := start(Options{Config: []string{"maxmemory 64mb", "maxmemory-policy allkeys-lru"}})
		Expect(do(client(server), "INFO", "memory")).To(ContainSubstring("maxmemory_policy:allkeys-lru"))
	})

	It("can run as a cluster node", func() {
		Expect(do(client(start(Options{Cluster: true})), "CLUSTER", "INFO")).To(ContainSubstring("cluster_state:fail"))
	})

	It("can run as a Sentinel", func() {
		master := start(Options{})
		sentinel := start(Options{Sentinel: true, Config: []string{"sentinel monitor orders 127.0.0.1 " + strconv.Itoa(master.Port()) + " 1"}})
		Expect(do(client(sentinel), "INFO", "sentinel")).To(ContainSubstring("name=orders"))
	})

	It("does not reply while frozen and continues when thawed", func() {
		server := start(Options{})
		conn, err := net.Dial("tcp", server.Addr())
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		Expect(server.Freeze()).To(Succeed())
		_, err = conn.Write([]byte("PING\r\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))).To(Succeed())
		_, err = conn.Read(make([]byte, 16))
		Expect(err).To(MatchError(os.ErrDeadlineExceeded))
		Expect(server.Thaw()).To(Succeed())
		Expect(conn.SetReadDeadline(time.Now().Add(5 * time.Second))).To(Succeed())
		Expect(bufio.NewReader(conn).ReadString('\n')).To(Equal("+PONG\r\n"))
	})

	It("stops at once even while frozen", func() {
		server := start(Options{})
		Expect(server.Freeze()).To(Succeed())
		begun := time.Now()
		server.Stop()
		Expect(time.Since(begun)).To(BeNumerically("<", stopGrace))
	})

	It("leaves neither a process nor a directory after Close", func() {
		server := start(Options{AppendOnly: true})
		Expect(server.Directory()).To(BeADirectory())
		server.Close()
		Expect(server.Directory()).NotTo(BeAnExistingFile())
		Expect(dial(server.Addr())).NotTo(Succeed())
		server.Close()
	})

	It("dies with its parent process, and the next sweep removes its directory", func() {
		if runtime.GOOS != "linux" {
			Skip("only Linux kills a child with its parent")
		}
		owner := exec.Command(os.Args[0])
		owner.Env = append(os.Environ(), ownerVariable+"=1")
		output, err := owner.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(owner.Start()).To(Succeed())
		line, err := bufio.NewReader(output).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		fields := strings.Fields(line)
		Expect(fields).To(HaveLen(2), line)
		addr, directory := fields[0], fields[1]
		Expect(dial(addr)).To(Succeed())

		sweepOne(directory, 0)
		Expect(directory).To(BeADirectory(), "its owner is alive")

		Expect(owner.Process.Kill()).To(Succeed())
		_ = owner.Wait()
		Eventually(func() error { return dial(addr) }).ShouldNot(Succeed())
		sweepOne(directory, time.Hour)
		Expect(directory).To(BeADirectory(), "it is not old enough")
		sweepOne(directory, 0)
		Expect(directory).NotTo(BeAnExistingFile())
	})
})

var _ = Describe("Start", func() {
	It("returns a one-line error with an install command if there is no redis-server", func() {
		GinkgoT().Setenv("PATH", GinkgoT().TempDir())
		DeferCleanup(func(usual func(string) []string) { installedAs = usual }, installedAs)
		installedAs = func(string) []string { return nil }
		_, err := Start(Options{})
		Expect(err).To(MatchError(ErrNotInstalled))
		Expect(err).To(MatchError(And(ContainSubstring("apt-get install redis-server"), Not(ContainSubstring("\n")))))
	})

	It("names the program in REDIS_SERVER that cannot be run", func() {
		GinkgoT().Setenv(BinaryVariable, "no-such-redis")
		_, err := Start(Options{})
		Expect(err).To(MatchError(And(ContainSubstring("REDIS_SERVER"), ContainSubstring("no-such-redis"))))
	})

	It("includes the server's message about an unknown directive", func() {
		_, err := Start(Options{Config: []string{"no-such-directive yes"}})
		Expect(err).To(MatchError(ContainSubstring("no-such-directive")))
	})

	It("detects that another program owns the port", func() {
		other := start(Options{})
		_, err := Start(Options{Port: other.Port()})
		Expect(err).To(MatchError(errPortTaken))
		Expect(dial(other.Addr())).To(Succeed())
	})

	It("kills a program that never replies and removes its directory", func() {
		script := filepath.Join(GinkgoT().TempDir(), "mute")
		Expect(os.WriteFile(script, []byte("#!/bin/sh\npwd\nexec sleep 60\n"), 0o700)).To(Succeed())
		_, err := Start(Options{Binary: script, StartTimeout: 3 * time.Second})
		Expect(err).To(MatchError(ContainSubstring("did not reply within 3s")))
		lines := strings.Split(err.Error(), "\n")
		Expect(lines[len(lines)-1]).To(ContainSubstring(directoryPrefix))
		Expect(lines[len(lines)-1]).NotTo(BeAnExistingFile())
	})
})

var _ = Describe("FreePort", func() {
	It("returns a port that is free and outside the ephemeral range", func() {
		port, err := FreePort()
		Expect(err).NotTo(HaveOccurred())
		Expect(port).To(BeNumerically("<", 32768))
		listener, err := net.Listen("tcp", loopback(port))
		Expect(err).NotTo(HaveOccurred())
		Expect(listener.Close()).To(Succeed())
	})
})

// dial reports whether the address accepts connections.
func dial(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	return errors.Join(err, func() error {
		if conn == nil {
			return nil
		}
		return conn.Close()
	}())
}
