package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moqrelay/operator/relay/load"
)

// pubCommand is `moq-load pub`.
type pubCommand struct {
	*program
	common
	content    load.Checked
	maxLatency time.Duration
	linger     time.Duration
	wait       bool
	holdAfter  []int
	hashes     bool
	since      clockTime
	steady
}

// steady are the flags of publishers that outlive a relay and each other.
type steady struct {
	epoch     load.Epoch
	reconnect bool
}

func (s *steady) registerSteady(flags *pflag.FlagSet) {
	flags.Var(&s.epoch, "epoch", "name of the content, for relays that speak moq-lite-07-wip: publishers of the same epoch send the same groups, and a higher one replaces a lower one")
	flags.BoolVar(&s.reconnect, "reconnect", false, "connect again when a session is lost, and follow a relay's GOAWAY")
}

// clockTime is a time of day as a flag: RFC 3339, or seconds since 1970.
type clockTime struct{ time.Time }

// Set reads the text form.
func (c *clockTime) Set(text string) (err error) {
	if seconds, err := strconv.ParseInt(text, 10, 40); err == nil && seconds >= 0 {
		c.Time = time.Unix(seconds, 0)
		return nil
	}
	if c.Time, err = time.Parse(time.RFC3339, text); err != nil {
		return errors.New("a time such as 2006-01-02T15:04:05Z is wanted, or seconds since 1970")
	}
	return nil
}

// String is the text form; empty for none.
func (c *clockTime) String() string {
	if c.IsZero() {
		return ""
	}
	return c.UTC().Format(time.RFC3339)
}

// Type names the kind of value in help texts.
func (*clockTime) Type() string { return "time" }

func (p *program) newPub() *cobra.Command {
	c := &pubCommand{program: p, content: load.Checked{Sizes: load.Sizes{Min: 1200, Max: 1200}}}
	cmd := &cobra.Command{
		Use:   "pub URL...",
		Short: "Publish a track of frames that prove themselves",
		Long: `Publish a track of frames that prove themselves.

With --since the time of day says which group and which bytes are due, so that
publishers with the same --since, --rate, --frames and --size send the same; the
first group is the next to begin. With the same --epoch too a relay that speaks
moq-lite-07-wip goes on with one of them when another is gone, between two groups:

  moq-load pub --since 0 --epoch 0193f3a0-1b2c-7d3e-8f40-000000000001 --reconnect URL`,
		Args: urlCount(1, 100),
		RunE: func(cmd *cobra.Command, urls []string) error { return c.run(cmd.Context(), urls) },
	}
	flags := cmd.Flags()
	c.register(flags, "load", "data")
	flags.IntVar(&c.content.Groups, "groups", 0, "groups to publish; 0: no end")
	flags.IntVar(&c.content.Frames, "frames", 30, "frames of each group")
	flags.Var(&c.content.Sizes, "size", "bytes of each frame: a size, or LOW..HIGH")
	flags.Float64Var(&c.content.Rate, "rate", 30, "frames per second; 0: as fast as the relay takes them")
	flags.DurationVar(&c.maxLatency, "max-latency", 30*time.Second, "how long groups that are not the latest stay available")
	flags.BoolVar(&c.wait, "wait", false, "wait for a subscriber before the first frame")
	flags.IntSliceVar(&c.holdAfter, "hold-after", nil, "after so many frames wait for a line on standard input; several counts between commas")
	flags.DurationVar(&c.linger, "linger", 10*time.Second, "how long relays may take to fetch the rest at the end")
	c.registerSteady(flags)
	flags.Var(&c.since, "since", "when group 0 began or begins, as RFC 3339 or in seconds since 1970; without it that is now")
	flags.BoolVar(&c.hashes, "hashes", false, `print "frame GROUP FRAME SIZE SHA256" for each frame`)
	return cmd
}

// validate names every flag that is out of its range.
func (c *pubCommand) validate() error {
	var held error
	for _, n := range c.holdAfter {
		held = errors.Join(held, inRange("hold-after", n, 1, 1<<40))
	}
	if !c.since.IsZero() && c.content.Rate == 0 {
		held = errors.Join(held, errors.New("--since needs a --rate"))
	}
	return errors.Join(held,
		inRange("groups", c.content.Groups, 0, 1<<40),
		inRange("frames", c.content.Frames, 1, load.MaxFrames),
		inRange("rate", c.content.Rate, 0, load.MaxRate),
		inRange("max-latency", c.maxLatency.Seconds(), 0, 3600),
		inRange("linger", c.linger.Seconds(), 0, 3600),
	)
}

func (c *pubCommand) run(ctx context.Context, urls []string) error {
	if err := c.validate(); err != nil {
		return err
	}
	c.target.Epochs = c.epoch != load.Epoch{}
	targets, err := c.parse(urls)
	if err != nil {
		return err
	}
	c.content.Since = c.since.Time
	progress := &load.Progress{Out: c.stderr, Quiet: c.quiet}
	o := load.PublishOptions{
		Targets: targets, Broadcast: c.broadcast, Track: c.track, Content: &c.content,
		MaxLatency: c.maxLatency, Wait: c.wait, HoldAfter: c.holdAfter, Release: c.stdin, Linger: c.linger,
		Epoch: c.epoch, Reconnect: c.reconnect, Progress: progress, Log: c.log(c.stderr),
	}
	if c.hashes {
		o.OnFrame = c.printHash
	}
	if err := load.Publish(ctx, o); err != nil {
		return failed(err)
	}
	fmt.Fprintf(c.stdout, "published %s\n", progress.Summary())
	return nil
}

// printHash writes what two programs can compare.
func (p *program) printHash(place load.Place, payload []byte) {
	fmt.Fprintf(p.stdout, "frame %d %d %d %x\n", place.Group, place.Frame, len(payload), sha256.Sum256(payload))
}
