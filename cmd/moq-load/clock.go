package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/load"
)

// clockCommand is `moq-load clock`.
type clockCommand struct {
	*program
	common
	content load.Clock
	steady
}

func (p *program) newClock() *cobra.Command {
	c := &clockCommand{program: p}
	cmd := &cobra.Command{
		Use:   "clock URL",
		Short: "Publish the time of day as text",
		Long: `Publish the time of day as text: each second is a group, each frame the time in
RFC 3339 with milliseconds. "moq-load sub URL --broadcast clock --track seconds --print"
shows it with the latency.`,
		Args: urlCount(1, 1),
		RunE: func(cmd *cobra.Command, urls []string) error { return c.run(cmd.Context(), urls) },
	}
	flags := cmd.Flags()
	c.register(flags, "clock", "seconds")
	c.registerSteady(flags)
	flags.IntVar(&c.content.Rate, "rate", 1, "frames in each second")
	flags.IntVar(&c.content.Ticks, "ticks", 0, "end after so many frames; 0: never")
	return cmd
}

func (c *clockCommand) run(ctx context.Context, urls []string) error {
	err := errors.Join(
		inRange("rate", c.content.Rate, 1, 1000),
		inRange("ticks", c.content.Ticks, 0, 1<<40),
	)
	if err != nil {
		return err
	}
	c.target.Epochs = c.epoch != load.Epoch{}
	targets, err := c.parse(urls)
	if err != nil {
		return err
	}
	progress := &load.Progress{Out: c.stderr, Quiet: c.quiet}
	err = load.Publish(ctx, load.PublishOptions{
		Targets: targets, Broadcast: c.broadcast, Track: c.track, Content: &c.content,
		MaxLatency: 10 * time.Second, Linger: 5 * time.Second, Epoch: c.epoch, Reconnect: c.reconnect, Progress: progress, Log: c.log(c.stderr),
	})
	if err != nil {
		return failed(err)
	}
	fmt.Fprintf(c.stdout, "published %s\n", progress.Summary())
	return nil
}
