package bullmqpush

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Client sends jobs to endpoints. Its handlers share connections, and what is known of
// each host: the limit of HostConcurrency, failures, and waits that the host has asked for.
// Its methods are safe for concurrent use.
type Client struct {
	options   Options
	keys      []key
	callback  key // signs addresses for callbacks; nil without CallbackURL
	allowed   []hostPattern
	hosts     *hosts
	dialer    *net.Dialer
	transport *http.Transport
}

// NewClient returns a Client. It returns an error if the options are invalid.
func NewClient(options *Options) (*Client, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("bullmqpush: make a client: %w", err)
	}
	keys, err := parseKeys(o.Keys)
	if err != nil {
		return nil, fmt.Errorf("bullmqpush: make a client: %w", err)
	}
	var callback key
	if o.CallbackURL != "" {
		keys, err := parseKeys(o.CallbackKeys)
		if err != nil {
			return nil, fmt.Errorf("bullmqpush: make a client: CallbackKeys: %w", err)
		}
		callback = keys[0]
	}
	allowed, err := parseHosts(o.AllowedHosts)
	if err != nil {
		return nil, fmt.Errorf("bullmqpush: make a client: %w", err)
	}
	dialer := &net.Dialer{Timeout: o.Timeout, KeepAlive: 30 * time.Second, Control: addressGuard(o.AllowedNetworks).control}
	transport := &http.Transport{ // without a Proxy, which would connect to unchecked addresses
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    o.Timeout,
		TLSClientConfig:        o.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // so that MaxAnswer is the limit of what is read
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    100,
		MaxIdleConns:           1000,
		// Less than the 5 seconds after which Node's servers close idle connections. A request that
		// crosses with the close would be a failed attempt.
		IdleConnTimeout: 4 * time.Second,
	}
	return &Client{o, keys, callback, allowed, newHosts(o.HostConcurrency, o.BreakerFailures, o.BreakerPause), dialer, transport}, nil
}

// Handler returns a handler that sends each job to the endpoint, an absolute URL. It returns
// an error if the endpoint is not valid, or if the options don't allow its host.
func (c *Client) Handler(endpoint string) (bullmq.Handler, error) {
	to, err := url.Parse(endpoint)
	if err != nil { // its text has the endpoint, which may contain a secret
		return nil, fmt.Errorf("bullmqpush: handle jobs: the endpoint is not a URL")
	}
	allowed := c.allowed
	if len(allowed) == 0 {
		allowed = []hostPattern{{name: hostname(to), port: portOf(to)}}
	}
	if err := checkTarget(to, allowed, c.options.AllowHTTP); err != nil {
		return nil, fmt.Errorf("bullmqpush: handle jobs by %s: %w", place(to), err)
	}
	to.Fragment, to.RawFragment = "", ""
	return (&pusher{c, to, allowed}).serveJob, nil
}

// Close closes the connections that are not in use. Call it when the workers have stopped. A
// Client may be used after it.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Handler returns a handler that sends each job to the endpoint, an absolute URL. It is the
// handler of a new [Client]. Use [Client.Handler] if several endpoints are on the same
// host, or if the endpoint is not known in advance.
//
// Handler panics if the options or the endpoint are invalid.
func Handler(endpoint string, options *Options) bullmq.Handler {
	client, err := NewClient(options)
	if err != nil {
		panic(err)
	}
	handler, err := client.Handler(endpoint)
	if err != nil {
		panic(err)
	}
	return handler
}
