package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/load"
)

// subCommand is `moq-load sub`.
type subCommand struct {
	*program
	common
	frames     int
	duration   time.Duration
	maxLatency time.Duration
	lossy      bool
	print      bool
	hashes     bool
	reconnect  bool
}

func (p *program) newSub() *cobra.Command {
	c := &subCommand{program: p}
	cmd := &cobra.Command{
		Use:   "sub URL",
		Short: "Watch a track and check every byte",
		Long: `Watch a track and check every byte.

The exit code is 1 when a frame is wrong, when a group is missing or was cut short,
or when the track ends too early. With --print the track is text, such as that of
"moq-load clock", and is shown instead.

The last line, whatever the exit code, is for programs, its figures in this order:

  summary frames=N bytes=N groups=N cut=N missing=N gaps=N longest_gap=N corrupt=N
    resets=N reconnects=N moves=N longest_stall_ms=N stall_group=N first=N last=N ended=BOOL

groups are whole ones, each counted once; gaps are runs of missing groups, longest_gap
has the groups of the longest. resets are subscriptions that ended before their time,
reconnects sessions that were lost, moves sessions left because of a GOAWAY; without
--reconnect the first of them ends the view. The longest stall is the longest time
without a new frame, which ended with one of stall_group. first is the lowest group
of which a frame came, last the highest that began.`,
		Args: urlCount(1, 1),
		RunE: func(cmd *cobra.Command, urls []string) error { return c.run(cmd.Context(), urls) },
	}
	flags := cmd.Flags()
	c.register(flags, "load", "data")
	flags.IntVar(&c.frames, "frames", 0, "end well after so many frames; 0: at the end of the track")
	flags.DurationVar(&c.duration, "duration", 0, "end well after this time if frames came; 0: no end")
	flags.DurationVar(&c.maxLatency, "max-latency", 30*time.Second, "how stale a group that is not the latest may be before it is skipped")
	flags.BoolVar(&c.lossy, "lossy", false, "accept that groups are skipped or cut short, as live players do")
	flags.BoolVar(&c.print, "print", false, "show each frame as text with its latency, and check nothing")
	flags.BoolVar(&c.reconnect, "reconnect", false, "ask again for a subscription that is reset, connect again when the session is lost, and follow a relay's GOAWAY; group numbers must go on")
	flags.BoolVar(&c.hashes, "hashes", false, `print "frame GROUP FRAME SIZE SHA256" for each frame`)
	return cmd
}

func (c *subCommand) validate() error {
	return errors.Join(
		inRange("frames", c.frames, 0, 1<<40),
		inRange("duration", c.duration.Seconds(), 0, 86400),
		inRange("max-latency", c.maxLatency.Seconds(), 0, 3600),
	)
}

func (c *subCommand) run(ctx context.Context, urls []string) error {
	if err := c.validate(); err != nil {
		return err
	}
	targets, err := c.parse(urls)
	if err != nil {
		return err
	}
	progress := &load.Progress{Out: c.stderr, Quiet: c.quiet || c.print}
	o := load.ViewOptions{
		Target: targets[0], Broadcast: c.broadcast, Track: c.track, MaxLatency: c.maxLatency,
		Frames: c.frames, Duration: c.duration, Lossy: c.lossy || c.print,
		Reconnect: c.reconnect, Progress: progress, Log: c.log(c.stderr),
	}
	if c.print {
		o.Print = c.stdout
	}
	if c.hashes {
		o.OnFrame = c.printHash
	}
	report, err := load.View(ctx, o)
	fmt.Fprintf(c.stdout, "watched %s; %d whole groups, %d cut short, %d missing\n%s\n",
		progress.Summary(), report.Groups, report.Cut, report.Missing, report.Line())
	return failed(err)
}
