package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

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

// serve runs the relay until it was told to stop and has drained.
func (c *serveCommand) serve(context.Context, config.Source, *config.Loaded) error {
	return fail(errors.New("serve is not part of this build"))
}
