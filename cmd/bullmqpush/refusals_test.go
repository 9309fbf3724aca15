package main_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmqpush"
	command "github.com/17a2ac88/bullmq-go/cmd/bullmqpush"
)

var _ = It("The command limits how long the clients of its HTTP servers may hold a connection", func() {
	web := command.Web(":8081", nil)
	for _, limit := range []time.Duration{web.ReadHeaderTimeout, web.ReadTimeout, web.WriteTimeout, web.IdleTimeout} {
		Expect(limit).To(And(BeNumerically(">=", 10*time.Second), BeNumerically("<=", time.Minute)))
	}
})

var _ = DescribeTable("The command refuses what it can't use, and names the flag or the variable and the remedy:", func(variables, arguments []string, want string) {
	Expect(command.Check(variables, arguments...)).To(MatchError(want))
},
	Entry("no queue", keyed(), nil, "there is no queue; give one with its endpoint by -queue NAME=URL or BULLMQPUSH_QUEUE"),
	Entry("no key", nil, []string{"-queue", "a=https://example.com"},
		"there is no key to sign requests; set BULLMQPUSH_KEYS or -keys-file (bullmqpush -new-key makes a key)"),
	Entry("an unknown flag", nil, []string{"-que", "a"}, "flag provided but not defined: -que"),
	Entry("a flag without its value", nil, []string{"-queue"}, "flag needs an argument: -queue"),
	Entry("an argument without a flag", nil, []string{"-allow-http", "a=https://example.com"},
		`there is an argument without a flag, "a=https://example.com"; give queues by -queue NAME=URL`),
	Entry("a queue without an endpoint", nil, []string{"-queue", "orders"},
		`-queue "orders": write NAME=URL, such as invoices=https://billing.example.com/jobs`),
	Entry("queues separated by commas", keyed("BULLMQPUSH_QUEUE=a=https://example.com,b=https://example.com"), nil,
		"BULLMQPUSH_QUEUE: separate several queues by spaces, or repeat the flag"),
	Entry("a queue with two endpoints", nil, []string{"-queue", "a=https://example.com/1", "-queue", "a=https://example.com/2"},
		`-queue "a=https://example.com/2": the queue a has two endpoints; give it one`),
	Entry("an endpoint of another scheme before a valid one", keyed("BULLMQPUSH_QUEUE=a=htps://example.com?token=secret b=https://example.com"), nil,
		"BULLMQPUSH_QUEUE: write NAME=URL with https or http, such as invoices=https://billing.example.com/jobs"),
	Entry("an endpoint that is not a URL", keyed("BULLMQPUSH_QUEUE=a=https://exa%zzmple.com?token=secret"), nil,
		"BULLMQPUSH_QUEUE: the endpoint of the queue a is not a URL; write it like https://billing.example.com/jobs"),
	Entry("an endpoint without TLS", keyed(), []string{"-queue", "a=http://example.com/jobs?token=secret"},
		"-queue a: http://example.com/jobs: it has no TLS; use https, or set -allow-http"),
	Entry("an endpoint with a user", keyed("BULLMQPUSH_QUEUE=a=https://ada:secret@example.com/jobs"), nil,
		"-queue a: https://example.com/jobs: it has a user; set BULLMQPUSH_HEADERS instead"),
	Entry("an endpoint whose host is not allowed", keyed(), []string{"-queue", "a=https://example.com", "-allowed-hosts", "example.org"},
		"-queue a: https://example.com: the host is not allowed; add it to -allowed-hosts if it is intended"),
	Entry("a host that is a URL", keyed(), []string{"-queue", "a=https://example.com", "-allowed-hosts", "https://example.com"},
		`-allowed-hosts has "https://example.com"; use a host like api.example.com, api.example.com:8443 or *.example.com`),
	Entry("a network that is none", nil, []string{"-allowed-networks", "10.0.0.0/8,10.1.2"},
		`-allowed-networks "10.0.0.0/8,10.1.2": 10.1.2 is not a network; write it like 10.1.0.0/16 or fd00:1::/64`),
	Entry("a duration without a unit", nil, []string{"-timeout", "30"}, `-timeout "30": write a duration with its unit, such as 500ms, 30s or 2m`),
	Entry("a duration in a variable", []string{"BULLMQPUSH_TIMEOUT=30"}, nil, `BULLMQPUSH_TIMEOUT: write a duration with its unit, such as 500ms, 30s or 2m`),
	Entry("no concurrency", nil, []string{"-concurrency", "0"}, `-concurrency "0": write a whole number, at least 1`),
	Entry("a switch in a variable", []string{"BULLMQPUSH_ALLOW_HTTP=on"}, nil, "BULLMQPUSH_ALLOW_HTTP: write true or false"),
	Entry("a status that is none", nil, []string{"-fail-statuses", "4xx"}, `-fail-statuses "4xx": write numbers separated by commas, such as 410,422, or none`),
	Entry("a status that completes jobs", keyed(), []string{"-queue", "a=https://example.com", "-fail-statuses", "200"},
		"-fail-statuses has 200, which is not between 400 and 599"),
	Entry("a format of logs", nil, []string{"-log-format", "xml"}, `-log-format "xml": write text or json`),
	Entry("a level of logs", nil, []string{"-log-level", "loud"}, `-log-level "loud": write debug, info, warn or error`),
	Entry("a key in a flag", nil, []string{"-keys", "whsec_c2VjcmV0"},
		"-keys has a secret, but all users can see the flags of a process; set BULLMQPUSH_KEYS or -keys-file"),
	Entry("a header in a flag", nil, []string{"-headers", "Authorization: secret"},
		"-headers has a secret, but all users can see the flags of a process; set BULLMQPUSH_HEADERS or -headers-file"),
	Entry("a password of Redis in a flag", nil, []string{"-redis", "redis://:secret@127.0.0.1"},
		"-redis has a secret, but all users can see the flags of a process; set BULLMQPUSH_REDIS or -redis-file"),
	Entry("a key that is none", []string{"BULLMQPUSH_QUEUE=a=https://example.com", "BULLMQPUSH_KEYS=" + bullmqpush.NewKey() + " secret!"}, nil,
		"BULLMQPUSH_KEYS: key 2 of 2 is not whsec_ and base64 (bullmqpush -new-key makes a key)"),
	Entry("a short key", []string{"BULLMQPUSH_QUEUE=a=https://example.com", "BULLMQPUSH_KEYS=whsec_c2VjcmV0"}, nil,
		"BULLMQPUSH_KEYS: key 1 of 1 has 6 bytes; use 24 to 64 (bullmqpush -new-key makes a key)"),
	Entry("keys at two places", keyed(), []string{"-keys-file", "keys"}, "both -keys-file and BULLMQPUSH_KEYS are set; keep one of them"),
	Entry("a file that does not exist", nil, []string{"-keys-file", "no-such-file"}, "-keys-file: open no-such-file: no such file or directory"),
	Entry("callbacks without a key", keyed(), []string{"-queue", "a=https://example.com", "-callback-url", "https://example.org"},
		"-callback-url and BULLMQPUSH_CALLBACK_KEYS are set only together"),
	Entry("callbacks without TLS", keyed("BULLMQPUSH_CALLBACK_KEYS="+bullmqpush.NewKey()), []string{"-queue", "a=https://example.com", "-callback-url", "http://example.org"},
		"-callback-url has no TLS; use https, or set -allow-http"),
	Entry("a key of callbacks that is none", keyed("BULLMQPUSH_CALLBACK_KEYS=secret!"), []string{"-queue", "a=https://example.com", "-callback-url", "https://example.org"},
		"BULLMQPUSH_CALLBACK_KEYS: key 1 of 1 is not whsec_ and base64"),
	Entry("callbacks that no endpoint knows", keyed(), []string{"-queue", "a=https://example.com", "-callback-listen", ":8081"},
		"-callback-listen has no effect without -callback-url; set both"),
	Entry("headers that are none", []string{"BULLMQPUSH_HEADERS=secret"}, nil, "BULLMQPUSH_HEADERS: a line is not a header; write Name: value"),
)

var _ = DescribeTable("The command refuses files for TLS that can't be used:", func(arguments func(directory string) []string, text string) {
	directory := GinkgoT().TempDir()
	valid, expired := newPair("client", time.Now().Add(time.Hour)), newPair("client", time.Now().Add(-time.Hour))
	for name, content := range map[string]string{
		"cert.pem": valid.certificate, "key.pem": valid.key, "old-cert.pem": expired.certificate, "old-key.pem": expired.key, "text.pem": "none",
	} {
		Expect(os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600)).To(Succeed())
	}
	Expect(command.Check(keyed("BULLMQPUSH_QUEUE=a=https://example.com"), arguments(directory+"/")...)).To(MatchError(MatchRegexp(text)))
},
	Entry("a certificate without a key", func(d string) []string { return []string{"-tls-cert", d + "cert.pem"} }, "-tls-cert and -tls-key are needed together"),
	Entry("a key of another certificate", func(d string) []string { return []string{"-tls-cert", d + "cert.pem", "-tls-key", d + "old-key.pem"} }, "-tls-cert .*private key does not match"),
	Entry("a file that does not exist", func(d string) []string { return []string{"-tls-cert", d + "no.pem", "-tls-key", d + "key.pem"} }, "-tls-cert .*no such file"),
	Entry("a certificate that has expired", func(d string) []string {
		return []string{"-tls-cert", d + "old-cert.pem", "-tls-key", d + "old-key.pem"}
	}, "the certificate has expired on .*renew it"),
	Entry("authorities that are none", func(d string) []string { return []string{"-tls-ca", d + "text.pem"} }, "-tls-ca .*there is no certificate in it"),
	Entry("authorities that do not exist", func(d string) []string { return []string{"-tls-ca", d + "no.pem"} }, "-tls-ca: .*no such file"),
)
