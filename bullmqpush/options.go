package bullmqpush

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Options configures a [Client] or a [Handler].
type Options struct {
	// Keys sign the requests, each request with all of them. To replace a key, add the new
	// one, give it to the receivers, and then remove the old one. [NewKey] makes a key. At
	// least one is required.
	Keys []string
	// Timeout limits a request, from the connection to the end of the answer. With redirects
	// it limits all requests together. It does not include the wait that HostConcurrency
	// causes. Defaults to 30 seconds.
	Timeout time.Duration
	// Header has additional headers for each request, such as Authorization. They are not
	// sent to another host after a redirect. The headers that this package sets take
	// precedence.
	Header http.Header
	// FailStatuses are the statuses of an answer that fail a job without a retry. They
	// are from 400 to 599, and take precedence over Retry-After. An empty slice that is not
	// nil means none. Defaults to 410 and 422.
	FailStatuses []int
	// MaxRetryAfter is the longest wait that a Retry-After may ask for. A longer one is
	// shortened to it. Defaults to 1 hour.
	MaxRetryAfter time.Duration
	// MaxAnswer is the size of the largest answer in bytes, without its headers. A job whose
	// endpoint returns 2xx and a larger answer fails without a retry. Defaults to 1 MiB.
	MaxAnswer int64

	// AllowedHosts are the hosts to which requests may go, such as "api.example.com",
	// "api.example.com:8443" or "*.example.com". The last one stands for all subdomains, but
	// not for example.com itself. A host without a port stands for all ports. Defaults to the
	// host and port of the endpoint.
	AllowedHosts []string
	// AllowedNetworks are networks to which requests may go although their addresses are not
	// public, such as 10.1.0.0/16. Addresses that are private, local or reserved are refused
	// otherwise. The address is checked when a connection is opened, after its name has been
	// resolved.
	AllowedNetworks []netip.Prefix
	// AllowHTTP allows endpoints without TLS. Defaults to false.
	AllowHTTP bool
	// MaxRedirects is how many redirects with status 307 or 308 are followed for a job. Each
	// target must be an allowed host, and may not change from HTTPS to HTTP. An answer with
	// another redirect is a failed attempt. Defaults to 0, none.
	MaxRedirects int
	// TLS configures the connections, for instance with a client certificate or with the
	// authorities of an internal service. It is cloned. Defaults to the defaults of net/http.
	TLS *tls.Config

	// HostConcurrency is how many requests to a host are in flight at the same time in this
	// process. A job that waits for its turn takes one of the places of the worker's
	// Concurrency. Defaults to 0, no limit besides the worker's Concurrency.
	HostConcurrency int
	// BreakerFailures is the number of requests to a host that have to fail in a row before
	// no more are sent for BreakerPause. A request fails if there is no answer or if the status
	// is 500 or more. After the pause a single request is sent. The others continue if it
	// succeeds. Jobs run again later meanwhile, without consuming an attempt. A negative
	// number disables this. Defaults to 10.
	BreakerFailures int
	// BreakerPause is how long no requests are sent to a host after BreakerFailures.
	// Defaults to 30 seconds.
	BreakerPause time.Duration

	// CallbackURL is the address at which a [Callbacks] can be reached. If it is set, the status
	// 202 means that the endpoint has accepted the job and will end it by a callback. The worker
	// then runs other jobs. The job stays active, and its lock belongs to the callbacks.
	// Defaults to none. A 202 then completes the job.
	CallbackURL string
	// CallbackKeys sign the addresses for callbacks, which are sent with each request. The
	// first one is used. They must not be known to the endpoints, so they are not Keys.
	CallbackKeys []string
	// CallbackWait is how long an accepted job stays active without a callback. After that the
	// stalled check of a worker runs it again. It must not be longer than the LockDuration of the
	// worker. Defaults to 30 seconds, which is also the default of LockDuration.
	CallbackWait time.Duration

	// Telemetry is the Telemetry of the worker. It encodes the headers traceparent and
	// tracestate, so that the endpoint's spans are below the span of the attempt. Without it
	// these headers contain the trace context that the producer has stored with the job.
	Telemetry bullmq.Telemetry
}

// withDefaults returns a copy of the options with defaults, or an error that names an
// invalid one.
func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	for _, number := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(d.Timeout)}, {"MaxRetryAfter", int64(d.MaxRetryAfter)}, {"MaxAnswer", d.MaxAnswer},
		{"MaxRedirects", int64(d.MaxRedirects)}, {"HostConcurrency", int64(d.HostConcurrency)}, {"BreakerPause", int64(d.BreakerPause)},
		{"CallbackWait", int64(d.CallbackWait)},
	} {
		if number.value < 0 {
			return d, fmt.Errorf("%s is less than 0", number.name)
		}
	}
	if len(d.Keys) == 0 {
		return d, errors.New("there is no key in Keys; make one with NewKey, store it, and give it to the receivers too")
	}
	if d.FailStatuses == nil {
		d.FailStatuses = []int{http.StatusGone, http.StatusUnprocessableEntity}
	}
	for _, status := range d.FailStatuses {
		if status < 400 || status > 599 {
			return d, fmt.Errorf("FailStatuses has %d, which is not between 400 and 599", status)
		}
	}
	if d.CallbackURL != "" {
		to, err := url.Parse(d.CallbackURL)
		if err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Host == "" || to.RawQuery != "" || to.Fragment != "" || !isPrintable(d.CallbackURL) {
			return d, errors.New("CallbackURL is not an absolute URL without a query")
		}
		if to.Scheme == "http" && !d.AllowHTTP {
			return d, errors.New("CallbackURL has no TLS; use https, or set AllowHTTP")
		}
	}
	if (d.CallbackURL == "") != (len(d.CallbackKeys) == 0) {
		return d, errors.New("CallbackURL and CallbackKeys are set only together")
	}
	for _, key := range d.CallbackKeys {
		if slices.ContainsFunc(d.Keys, func(other string) bool { return sameKey(key, other) }) {
			return d, errors.New("CallbackKeys has one of Keys; endpoints must not know it")
		}
	}
	d.FailStatuses, d.AllowedNetworks = slices.Clone(d.FailStatuses), slices.Clone(d.AllowedNetworks)
	d.Header = d.Header.Clone()
	setDefault(&d.Timeout, 30*time.Second)
	setDefault(&d.MaxRetryAfter, time.Hour)
	setDefault(&d.MaxAnswer, 1<<20)
	d.MaxAnswer = min(d.MaxAnswer, math.MaxInt64-1) // one more byte is read
	setDefault(&d.BreakerFailures, 10)
	setDefault(&d.BreakerPause, 30*time.Second)
	setDefault(&d.CallbackWait, 30*time.Second)
	d.CallbackWait = max(d.CallbackWait.Truncate(time.Millisecond), time.Millisecond)
	return d, nil
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}
