package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/dashboard"
)

const (
	defaultListen = "127.0.0.1:3000"
	portsTried    = 20 // from that of defaultListen
)

// development is what bullmq dev runs.
type development struct {
	listen      string // "" for defaultListen or the next free port
	redisPort   int
	redisServer bool
	noDemo      bool
}

func newDev(c *client) *cobra.Command {
	var d development
	command := &cobra.Command{
		Use:   "dev",
		Short: "Start a Redis, the dashboard and demo jobs, to try things out",
		Long: "Start a Redis, the dashboard and demo jobs, to try things out.\n\n" +
			"Redis runs in this process, and its data is lost when the command ends. The Lua scripts of BullMQ for Node\n" +
			"need a real Redis: for Node clients, use --redis-server.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if c.url != "" || c.profile != "" || c.tls != (tlsFiles{}) {
				return usageError{errors.New("bullmq dev starts a Redis of its own: to show another, use bullmq dashboard")}
			}
			if d.listen != "" {
				address, err := resolveListen(d.listen)
				if err != nil {
					return err
				}
				if !address.IP.IsLoopback() {
					return usageError{errors.New("bullmq dev serves only this machine: for others, use bullmq dashboard with a password")}
				}
			}
			return d.run(command, c.prefix)
		},
	}
	flags := command.Flags()
	flags.StringVar(&d.listen, "listen", "", "address of the dashboard (default "+defaultListen+", or the next free port)")
	flags.IntVar(&d.redisPort, "redis-port", 0, "port of Redis (default a free one)")
	flags.BoolVar(&d.redisServer, "redis-server", false, "start the redis-server or valkey-server on the PATH, so that Node clients can take part")
	flags.BoolVar(&d.noDemo, "no-demo", false, "add no demo jobs and run no workers")
	return command
}

// run runs until it is interrupted.
func (d *development) run(command *cobra.Command, prefix string) error {
	ctx, out := command.Context(), command.OutOrStdout()
	listener, err := d.open()
	if err != nil {
		return err
	}
	defer listener.Close()
	url, stop, err := d.startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	connection, err := bullmq.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer connection.Close()
	pages, err := dashboard.New(connection, &dashboard.Options{Prefix: prefix})
	if err != nil {
		return err
	}
	web := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	defer web.Close()
	d.introduce(out, listener.Addr(), url)
	if d.noDemo {
		select {
		case err = <-failed:
		case <-ctx.Done():
			err = nil
		}
	} else {
		err = d.demonstrate(ctx, connection, prefix, failed, func(err error) {
			_, _ = fmt.Fprintln(command.ErrOrStderr(), errorText(err))
		})
	}
	_, _ = fmt.Fprintln(out, "Stopped.")
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("bullmq: dev: %w", err)
	}
	return nil
}

// demonstrate runs the demo until ctx ends. A second interruption ends it at once.
func (d *development) demonstrate(ctx context.Context, connection *bullmq.Connection, prefix string, failed <-chan error, warn func(error)) error {
	again := make(chan os.Signal, 2)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runDemo(running, connection, prefix, warn) }()
	var err error
	select {
	case err = <-failed:
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	cancel()
	for interrupts := 0; interrupts < 2; { // the first one has ended ctx
		select {
		case ending := <-ended:
			return errors.Join(err, ending)
		case <-again:
			interrupts++
		}
	}
	return err
}

// open listens for the dashboard.
func (d *development) open() (net.Listener, error) {
	if d.listen != "" {
		listener, err := net.Listen("tcp", d.listen)
		if err != nil {
			return nil, fmt.Errorf("bullmq: serve the dashboard: %w; choose another address with --listen", err)
		}
		return listener, nil
	}
	host, first, _ := net.SplitHostPort(defaultListen)
	port, _ := strconv.Atoi(first)
	var err error
	for i := range portsTried {
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+i))); err == nil {
			return listener, nil
		}
	}
	return nil, fmt.Errorf("bullmq: serve the dashboard: no port from %d to %d is free: %w; choose an address with --listen", port, port+portsTried-1, err)
}

// startRedis starts a Redis, and returns its address and what stops it.
func (d *development) startRedis(ctx context.Context) (url string, stop func(), err error) {
	if d.redisServer {
		server, err := startServer(ctx, d.redisPort)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("redis://127.0.0.1:%d", server.port), server.stop, nil
	}
	server, err := startInProcess(d.redisPort)
	if err != nil {
		return "", nil, err
	}
	return "redis://" + server.Addr(), server.Close, nil
}

// introduce tells what runs where.
func (d *development) introduce(out io.Writer, address net.Addr, url string) {
	_, _ = fmt.Fprintf(out, "The dashboard is at http://%s/\n", address)
	if d.redisServer {
		_, _ = fmt.Fprintf(out, "A redis-server runs at %s. Clients in Go and Node can use it. Its data is lost at the end.\n", url)
	} else {
		_, _ = fmt.Fprintf(out, "Redis runs in this process at %s. Its data is lost at the end.\n", url)
		_, _ = fmt.Fprintln(out, "The scripts of BullMQ for Node need a real Redis: for Node clients, add --redis-server.")
	}
	if !d.noDemo {
		_, _ = fmt.Fprintln(out, "Demo jobs of a shop are added and run. To start with no jobs, add --no-demo.")
	}
	_, _ = fmt.Fprintf(out, "In another terminal: REDIS_URL=%s bullmq queues\nCtrl-C stops everything.\n", url)
}
