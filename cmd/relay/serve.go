package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/preflight"
)

// serveCommand is `moq-relay serve`.
type serveCommand struct {
	*program
	config         configFlags
	dev            bool
	profiles       bool
	terminationLog string
}

func (p *program) newServe() *cobra.Command {
	c := &serveCommand{program: p}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the relay",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.config.register(cmd.Flags())
	registerDev(cmd.Flags(), &c.dev)
	cmd.Flags().BoolVar(&c.profiles, "pprof", false, "serve /debug/pprof/ to loopback peers of the status port")
	cmd.Flags().StringVar(&c.terminationLog, "termination-log", defaultTerminationLog, "file that is told why the relay could not start")
	return cmd
}

// run loads the configuration and serves it. What a user must correct is told in
// the termination log too.
func (c *serveCommand) run(ctx context.Context) error {
	source := c.config.sourceFor(c.dev, c.env)
	loaded, err := config.Load(source)
	if err != nil {
		err = fail(err)
		return errors.Join(err, writeTermination(c.terminationLog, preflight.Invalid(err).JSON()))
	}
	return c.serve(ctx, source, loaded)
}

// serve runs the relay until it was told to stop and has drained. The first
// SIGTERM or SIGINT begins to drain, the second ends at once.
func (c *serveCommand) serve(ctx context.Context, source config.Source, loaded *config.Loaded) error {
	server, err := relay.New(relay.Options{
		Loaded: loaded, Source: source, Version: ownVersion(), Log: c.stderr, Profiles: c.profiles,
	})
	if err != nil {
		return fail(err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	addresses, err := server.Listen(ctx)
	if err != nil {
		return fail(err)
	}
	fmt.Fprintln(c.stdout, addresses)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go stopOn(signals, done, server.Drain, cancel)
	if err := server.Run(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// stopOn calls drain at the first signal and end at the second. It returns when
// done is closed.
func stopOn(signals <-chan os.Signal, done <-chan struct{}, drain, end func()) {
	for _, act := range []func(){drain, end} {
		select {
		case <-signals:
			act()
		case <-done:
			return
		}
	}
}
