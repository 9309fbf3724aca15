package main

import (
	"log/slog"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmqpush"
)

// config is what the flags, the variables of the environment and the files have set.
type config struct {
	help, version, newKey bool

	redis, redisFile string
	prefix           string
	endpoints        []endpoint
	concurrency      int
	shutdownTimeout  time.Duration

	push                  bullmqpush.Options
	client                *bullmqpush.Client // by the options
	keysFile, headersFile string
	certFile, keyFile     string
	authoritiesFile       string

	callbackKeysFile string
	callbackListen   string

	listen    string
	logFormat string
	logLevel  slog.Level
}

// settings returns all settings, in the order of the help.
func (c *config) settings() []group {
	return []group{
		{"Queues", []setting{
			{name: "queue", holder: "NAME=URL", set: c.addEndpoints,
				help: "A queue, and the endpoint to which its jobs are sent. Repeat it for several queues. The variable has them separated by spaces. Put an endpoint with a secret in its query into the variable."},
			{name: "redis", holder: "URL", set: text(&c.redis), refuse: "@", file: &c.redisFile, standard: "redis://127.0.0.1:6379",
				help: "The address of Redis. An address with a password can only be in the variable, or in the file of -redis-file."},
			{name: "redis-file", holder: "FILE", set: text(&c.redisFile),
				help: "A file that contains the address of Redis."},
			{name: "prefix", holder: "TEXT", set: text(&c.prefix), standard: "bull",
				help: "The first part of all keys, as in the programs that add the jobs."},
			{name: "concurrency", holder: "NUMBER", set: number(&c.concurrency, 1), standard: "10",
				help: "How many jobs of each queue are sent at the same time."},
			{name: "shutdown-timeout", holder: "DURATION", set: duration(&c.shutdownTimeout), standard: "25s",
				help: "How long requests may continue after SIGTERM or SIGINT. The jobs of the others return to their queue."},
		}},
		{"Requests", []setting{
			{name: "keys", holder: "KEYS", set: words(&c.push.Keys), secret: true, file: &c.keysFile, option: "Keys",
				help: "The keys that sign the requests, separated by spaces. Two keys are used while one replaces the other."},
			{name: "keys-file", holder: "FILE", set: text(&c.keysFile),
				help: "A file that contains the keys, separated by spaces or lines."},
			{name: "headers", holder: "LINES", set: c.addHeaders, secret: true, file: &c.headersFile, option: "Header",
				help: "Additional headers, such as \"Authorization: Bearer …\", one in each line."},
			{name: "headers-file", holder: "FILE", set: text(&c.headersFile),
				help: "A file that contains additional headers."},
			{name: "timeout", holder: "DURATION", set: duration(&c.push.Timeout), option: "Timeout", standard: "30s",
				help: "The deadline of a request, from the connection to the end of the answer."},
			{name: "fail-statuses", holder: "LIST", set: numbers(&c.push.FailStatuses), option: "FailStatuses", standard: "410,422",
				help: "The statuses of an answer that fail a job without a retry. none means that there are none."},
			{name: "max-retry-after", holder: "DURATION", set: duration(&c.push.MaxRetryAfter), option: "MaxRetryAfter", standard: "1h",
				help: "The longest wait that an answer may ask for with Retry-After."},
			{name: "max-answer", holder: "BYTES", set: number(&c.push.MaxAnswer, 1), option: "MaxAnswer", standard: "1048576",
				help: "The size of the largest answer."},
		}},
		{"Guards", []setting{
			{name: "allowed-hosts", holder: "LIST", set: list(&c.push.AllowedHosts), option: "AllowedHosts", standard: "the host and port of each endpoint",
				help: "The hosts to which requests may go, such as api.example.com,*.example.org."},
			{name: "allowed-networks", holder: "LIST", set: networks(&c.push.AllowedNetworks), option: "AllowedNetworks", standard: "none",
				help: "Private networks to which requests may go, such as 10.1.0.0/16."},
			{name: "allow-http", set: boolean(&c.push.AllowHTTP), option: "AllowHTTP", standard: "false",
				help: "Allows endpoints without TLS."},
			{name: "max-redirects", holder: "NUMBER", set: number(&c.push.MaxRedirects, 0), option: "MaxRedirects", standard: "0",
				help: "How many redirects with status 307 or 308 are followed for a job."},
		}},
		{"Limits of each host", []setting{
			{name: "host-concurrency", holder: "NUMBER", set: number(&c.push.HostConcurrency, 0), option: "HostConcurrency", standard: "0",
				help: "How many requests to a host are in flight at the same time. 0 means no limit besides -concurrency."},
			{name: "breaker-failures", holder: "NUMBER", set: breaker(&c.push.BreakerFailures), option: "BreakerFailures", standard: "10",
				help: "How many requests to a host fail in a row before it is paused. 0 means that it is never paused."},
			{name: "breaker-pause", holder: "DURATION", set: duration(&c.push.BreakerPause), option: "BreakerPause", standard: "30s",
				help: "How long a host is paused."},
		}},
		{"Callbacks", []setting{
			{name: "callback-url", holder: "URL", set: text(&c.push.CallbackURL), option: "CallbackURL",
				help: "The address at which endpoints reach -callback-listen. If it is set, an answer of 202 accepts a job, and the endpoint ends it later by a callback."},
			{name: "callback-keys", holder: "KEYS", set: words(&c.push.CallbackKeys), secret: true, file: &c.callbackKeysFile, option: "CallbackKeys",
				help: "The keys that sign the addresses of callbacks, separated by spaces. The first one signs. Endpoints must not know them."},
			{name: "callback-keys-file", holder: "FILE", set: text(&c.callbackKeysFile),
				help: "A file that contains the keys of callbacks."},
			{name: "callback-wait", holder: "DURATION", set: duration(&c.push.CallbackWait), option: "CallbackWait", standard: "30s",
				help: "How long an accepted job stays active without a callback."},
			{name: "callback-listen", holder: "ADDRESS", set: text(&c.callbackListen), standard: "none",
				help: "The address of an HTTP server for callbacks, such as :8081."},
		}},
		{"TLS", []setting{
			{name: "tls-cert", holder: "FILE", set: text(&c.certFile),
				help: "The certificate that is presented to endpoints, with its chain, as PEM. The file is read again when it changes."},
			{name: "tls-key", holder: "FILE", set: text(&c.keyFile),
				help: "The private key of -tls-cert, as PEM."},
			{name: "tls-ca", holder: "FILE", set: text(&c.authoritiesFile), standard: "the authorities of the system",
				help: "The authorities that sign the certificates of endpoints, as PEM."},
		}},
		{"Operation", []setting{
			{name: "listen", holder: "ADDRESS", set: text(&c.listen), standard: "none",
				help: "The address of an HTTP server with GET /healthz and GET /readyz, such as :8080."},
			{name: "log-format", holder: "FORMAT", set: oneOf(&c.logFormat, "text", "json"), standard: "text",
				help: "The format of log lines, text or json. They are written to stderr."},
			{name: "log-level", holder: "LEVEL", set: level(&c.logLevel), standard: "info",
				help: "The lowest level that is logged: debug, info, warn or error."},
		}},
	}
}

// setDefaults sets what is neither a zero value nor a default of a package.
func (c *config) setDefaults() {
	c.concurrency = 10
	c.shutdownTimeout = 25 * time.Second
	c.logFormat = "text"
}
