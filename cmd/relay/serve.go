package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/preflight"
)

// mutexSamples is how many contended locks there are to one that is sampled, where
// profiles are asked for.
const mutexSamples = 100

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
	cmd.Flags().BoolVar(&c.profiles, "pprof", false, "short for --status-pprof Enabled")
	cmd.Flags().StringVar(&c.terminationLog, "termination-log", defaultTerminationLog, "file that is told why the relay could not start")
	return cmd
}

// run loads the configuration and serves it. What a user must correct is told in
// the termination log too.
func (c *serveCommand) run(ctx context.Context) error {
	if c.profiles {
		c.config.keys["status.pprof"] = string(config.Enabled)
	}
	source := c.config.sourceFor(c.dev, c.env)
	loaded, err := config.Load(source)
	if err != nil {
		err = fail(err)
		return errors.Join(err, writeTermination(c.terminationLog, preflight.Invalid(err).JSON()))
	}
	return c.serve(ctx, source, loaded)
}

// gcPercent is how far the heap grows beyond what is live before it is collected,
// in percent, where GOGC says nothing. Go's own 100 lets a cache of half the memory
// limit take all of it; docs/memory.md has what this saves and costs.
const gcPercent = 50

// serve runs the relay until it was told to stop and has drained. The first
// SIGTERM or SIGINT begins to drain, the second ends at once. SIGHUP reads files again.
func (c *serveCommand) serve(ctx context.Context, source config.Source, loaded *config.Loaded) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	server, err := relay.New(relay.Options{
		Loaded: loaded, Source: source, Version: ownVersion(), Log: c.stderr,
	})
	if err != nil {
		return fail(err)
	}
	if loaded.Config.Status.Pprof.On() {
		runtime.SetMutexProfileFraction(mutexSamples)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, caught(source, loaded)...)
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
	go obey(signals, done, actions{reload: server.Reload, drain: server.Drain, end: cancel})
	if err := server.Run(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// caught are the signals that the relay answers to. Without files to read again
// SIGHUP keeps its meaning: the terminal is gone.
func caught(source config.Source, loaded *config.Loaded) []os.Signal {
	signals := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if source.File != "" || source.LiveFile != "" || loaded.Config.TLS.Mode == config.Files {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// actions are what signals make the relay do.
type actions struct{ reload, drain, end func() }

// obey reloads at each SIGHUP, drains at the first other signal and ends at the
// second. It returns then, or when done is closed.
func obey(signals <-chan os.Signal, done <-chan struct{}, a actions) {
	draining := false
	for {
		select {
		case got := <-signals:
			switch {
			case got == syscall.SIGHUP:
				a.reload()
			case draining:
				a.end()
				return
			default:
				draining = true
				a.drain()
			}
		case <-done:
			return
		}
	}
}
