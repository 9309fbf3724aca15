package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/17a2ac88/bullmq-go/dashboard"
)

func newDashboard(c *client) *cobra.Command {
	var listen string
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Show queues, jobs and workers in the browser, to this machine only",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx := command.Context()
			connection, err := c.open(ctx, command)
			if err != nil {
				return err
			}
			defer connection.Close()
			pages, err := dashboard.New(connection, &dashboard.Options{Prefix: c.prefix})
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("bullmq: serve the dashboard: %w; choose another address with --listen", err)
			}
			server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
			go func() {
				<-ctx.Done()
				_ = server.Close()
			}()
			_, _ = fmt.Fprintf(command.ErrOrStderr(), "The dashboard is at http://%s/\n", listener.Addr())
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("bullmq: serve the dashboard: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVar(&listen, "listen", "127.0.0.1:3000", "address of the dashboard")
	return command
}
