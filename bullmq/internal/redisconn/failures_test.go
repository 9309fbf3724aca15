package redisconn

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/internal/testkit/fakeredis"
)

// Errors as servers of several versions word them.
var _ = Describe("A server's error", func() {
	const sha = "f_1028a5dba704e1d8a01fd96efeba25bb78f62df2"
	within62 := func(text string) string {
		return "ERR Error running script (call to " + sha + "): @user_script:4: " + text
	}
	within7 := func(text string) string { return text + " script: " + sha + ", on @user_script:4." }

	// refused is the error of a call to which the server replied with text.
	refused := func(text string) error {
		GinkgoHelper()
		server := &fakeredis.Server{}
		client, err := server.Client()
		Expect(err).NotTo(HaveOccurred())
		defer client.Close()
		server.Script(fakeredis.Encode(fakeredis.Err(text)))
		err = client.Do(context.Background(), client.B().Evalsha().Sha1(sha[2:]).Numkeys(0).Build()).Error()
		Expect(err).To(MatchError(strings.TrimPrefix(text, "ERR ")))
		return err
	}

	type reading struct{ mayHaveRun, outage, lasting bool }
	const yes = true
	for what, means := range map[reading][]string{
		{outage: yes}: {
			"LOADING Redis is loading the dataset in memory", "LOADING Valkey is loading the dataset in memory",
			"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
			"BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
			"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
			"CLUSTERDOWN The cluster is down", "CLUSTERDOWN Hash slot not served",
			"READONLY You can't write against a read only replica.",
			within62("@user_script: 4: -READONLY You can't write against a read only replica."),
			within7("READONLY You can't write against a read only replica."),
			"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
			"ERR max number of clients reached", "ERR max number of clients + cluster connections reached",
		},
		{}: {"TRYAGAIN Multiple keys request during rehashing of slot"},
		{lasting: yes}: {
			"OOM command not allowed when used memory > 'maxmemory'.",
			within62("@user_script: 4: -OOM command not allowed when used memory > 'maxmemory'."),
			within7("OOM command not allowed when used memory > 'maxmemory'."),
			within62("@user_script: 4: -MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."),
			within7("MISCONF Errors writing to the AOF file: No space left on device"),
			"MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.",
			within7("NOREPLICAS Not enough good replicas to write."),
			"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT No matching script.",
			"CROSSSLOT Keys in request don't hash to the same slot",
			"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
			"DENIED Redis is running in protected mode because protected mode is enabled",
			"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", // 6.2
			"NOPERM this user has no permissions to run the 'evalsha' command",                   // 7.0
			"NOPERM User worker has no permissions to run the 'evalsha' command",                 // 7.2, 8 and Valkey
			"NOPERM this user has no permissions to access one of the keys used as arguments",
			"NOPERM No permissions to access a key",
		},
		{mayHaveRun: yes, lasting: yes}: {
			within62("The user executing the script can't run this command or subcommand"),
			within7("ERR The user executing the script can't run this command or subcommand"),
			within7("ERR ACL failure in script: User worker has no permissions to run the 'zadd' command"),
			within7("ERR ACL failure in script: No permissions to access a key"),
			within62("WRONGTYPE Operation against a key holding the wrong kind of value"),
			within7("WRONGTYPE Operation against a key holding the wrong kind of value"),
			"WRONGTYPE Operation against a key holding the wrong kind of value",
			within62("-READONLY in an error of the script itself"),
			"BUSYGROUP Consumer Group name already exists",
			"ERR the name holds READONLY",
		},
	} {
		for _, text := range means {
			It("is read as the same in each version: "+text, func() {
				err := refused(text)
				Expect(reading{Classify(err).MayHaveRun(), suggestsOutage(err), Classify(err).Lasting()}).To(Equal(what))
			})
		}
	}

	It("says at first contact what to look at", func() {
		Expect(advice(refused("ERR max number of clients reached"), false)).To(ContainSubstring("maxclients"))
		Expect(advice(refused("LOADING Redis is loading the dataset in memory"), false)).To(ContainSubstring("try again later"))
		Expect(advice(refused("ERR DB index is out of range"), false)).To(ContainSubstring("check the database"))
		Expect(advice(refused("ERR SELECT is not allowed in cluster mode"), false)).To(ContainSubstring("check the database"))
		Expect(advice(refused("NOPERM User worker has no permissions to run the 'select' command"), false)).To(ContainSubstring("what the user may do"))
	})
})
