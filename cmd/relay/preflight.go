package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/preflight"
)

// preflightCommand is `moq-relay preflight`.
type preflightCommand struct {
	*program
	config         configFlags
	terminationLog string
	proc           string
	node           string
	maxNodeBuffer  config.Bytes
}

func (p *program) newPreflight() *cobra.Command {
	c := &preflightCommand{program: p, maxNodeBuffer: preflight.DefaultMaxNodeBuffer}
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Look at the machine before a relay starts on it",
		Long: "preflight opens a UDP socket as the relay will, asks for its buffers and reads back what it got; with\n" +
			"socketBuffers.mode RaiseNode it raises the node's limits first. It looks at the certificates, and prints\n" +
			"what it found as one JSON object. Exit code 78: the configuration is not valid, or the buffers are\n" +
			"required and too small. A certificate's fault never fails it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.config.register(cmd.Flags())
	cmd.Flags().StringVar(&c.terminationLog, "termination-log", defaultTerminationLog, "file that gets the report too")
	cmd.Flags().StringVar(&c.proc, "host-proc", "/host/proc", "where the node's /proc is, for mode RaiseNode")
	cmd.Flags().StringVar(&c.node, "node-name", p.lookupEnv("NODE_NAME"), "the node's name for the report")
	cmd.Flags().Var(bytesFlag{&c.maxNodeBuffer}, "max-node-buffer", "how far the node's limits are raised at most")
	return cmd
}

// run makes the report, writes it and judges it.
func (c *preflightCommand) run(ctx context.Context) error {
	loaded, err := config.Load(c.config.source(c.env))
	if err != nil {
		return c.report(preflight.Invalid(err), fail(err))
	}
	r := preflight.Run(ctx, loaded.Config, preflight.Options{
		Node:          c.node,
		Proc:          c.proc,
		MaxNodeBuffer: int64(c.maxNodeBuffer),
	})
	if code := r.Exit(loaded.Config.SocketBuffers.Requirement); code != 0 {
		return c.report(r, &failure{fmt.Errorf("%s: %s", r.Err, r.Msg), code})
	}
	return c.report(r, nil)
}

// report writes the report, and returns verdict unless even that fails.
func (c *preflightCommand) report(r preflight.Report, verdict error) error {
	data := r.JSON()
	fmt.Fprintf(c.stdout, "%s\n", data)
	if err := writeTermination(c.terminationLog, data); err != nil && verdict == nil {
		return fail(fmt.Errorf("write the report: %w", err))
	}
	return verdict
}
