package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/load"
)

// fanoutCommand is `moq-load fanout`.
type fanoutCommand struct {
	*program
	common
	o              load.FanoutOptions
	size, keyframe load.Bytes
	start          string
	hops           int
	cpus           []int
	relayCPUs      []int
	json           string
}

func (p *program) newFanout() *cobra.Command {
	c := &fanoutCommand{program: p, size: 8 << 10}
	cmd := &cobra.Command{
		Use:   "fanout [URL]",
		Short: "Measure what a crowd of viewers gets, and what it costs the relay",
		Long: `Measure what a crowd of viewers gets, and what it costs the relay.

Publishers and viewers are in this process, each with a session of its own. The relay
is another process on this machine: one that runs (--relay-pid), or one that is started
for this (--start), which needs no URL where its first line names its addresses:

  moq-load fanout --viewers 100 --relay-cpus 0 --cpus 1 \
    --start "moq-relay serve --dev --listen 127.0.0.1:0 --status-listen 127.0.0.1:0"

Delivered are frames of the measured time that came at all; latency is from the
publisher's write to the last byte of the frame at the viewer. The exit code is 1 when
somebody cannot publish or watch or when a byte is wrong, not when frames are late.`,
		Args: urlCount(0, 1),
		RunE: func(cmd *cobra.Command, urls []string) error { return c.run(cmd.Context(), urls) },
	}
	flags := cmd.Flags()
	c.registerTarget(flags)
	flags.IntVar(&c.o.Viewers, "viewers", 50, "viewers that take everything")
	flags.IntVar(&c.o.Stalled, "stalled", 0, "further viewers that take one frame and then nothing")
	flags.IntVar(&c.o.Publishers, "publishers", 1, "broadcasts, each with its own publisher; the viewers are dealt out to them")
	flags.Var(&c.size, "size", "bytes of each frame")
	flags.Var(&c.keyframe, "keyframe", "bytes of the first frame of each second; 0: as the others")
	flags.Float64Var(&c.o.Rate, "rate", 30, "frames per second of each broadcast")
	flags.DurationVar(&c.o.Duration, "duration", 10*time.Second, "how long to measure, once all viewers are there")
	flags.DurationVar(&c.o.Idle, "idle", 3*time.Second, "how long to watch a track beside the crowd before that comes; 0: no such track")
	flags.DurationVar(&c.o.MaxLatency, "max-latency", 10*time.Second, "how stale a group may be before a viewer does without it")
	flags.DurationVar(&c.o.History, "history", 5*time.Second, "how long the relay may keep groups that are not the latest")
	flags.IntVar(&c.o.PID, "relay-pid", 0, "process of the relay, to measure it")
	flags.StringVar(&c.start, "start", "", "command that starts the relay, its words between spaces")
	flags.IntVar(&c.hops, "hops", 1, "relays in a chain that --start starts: publishers come to the first and viewers to the last; more than one are relays of ours, with a key that is made for them")
	flags.IntSliceVar(&c.relayCPUs, "relay-cpus", nil, "processors for the relay that --start starts, such as 0 or 0,1")
	flags.IntSliceVar(&c.cpus, "cpus", nil, "processors for publishers and viewers")
	flags.BoolVar(&c.o.Live, "live", false, "have the relay collect its garbage, and tell what is live for each viewer; needs a relay that is started with --pprof")
	flags.StringToStringVar(&c.o.Profiles, "profile", nil, "KIND=FILE: keep a profile of the measured time, such as mutex=FILE or profile=FILE for processor time; needs a relay that is started with --pprof")
	flags.StringVar(&c.json, "json", "", "file for the results as JSON; - is standard output, which then has nothing else")
	return cmd
}

// validate names every flag that is out of its range.
func (c *fanoutCommand) validate(urls []string) error {
	err := errors.Join(
		inRange("viewers", c.o.Viewers, 1, 100_000),
		inRange("stalled", c.o.Stalled, 0, 100_000),
		inRange("publishers", c.o.Publishers, 1, 1000),
		inRange("hops", c.hops, 1, 8),
		inRange("size", int(c.size), load.HeadBytes, load.MaxFrame),
		inRange("rate", c.o.Rate, 0.1, 10_000),
		inRange("duration", c.o.Duration.Seconds(), 1, 3600),
		inRange("idle", c.o.Idle.Seconds(), 0, 3600),
	)
	if c.keyframe != 0 {
		err = errors.Join(err, inRange("keyframe", int(c.keyframe), load.HeadBytes, load.MaxFrame))
	}
	switch {
	case c.start == "" && len(urls) == 0:
		err = errors.Join(err, errors.New("there is no relay: name its URL, or a command that starts one with --start"))
	case c.start != "" && c.o.PID != 0:
		err = errors.Join(err, errors.New("--relay-pid names a relay that runs, --start starts another: use one of them"))
	case c.hops > 1 && (c.start == "" || len(urls) > 0):
		err = errors.Join(err, errors.New("--hops is for relays that --start starts, and that name their addresses themselves: leave the URL out"))
	case c.start == "" && len(c.o.Profiles) > 0:
		err = errors.Join(err, errors.New("--profile is for a relay that --start starts, with --pprof in its command"))
	case c.start == "" && c.o.Live:
		err = errors.Join(err, errors.New("--live is for a relay that --start starts, with --pprof in its command"))
	case c.start == "" && len(c.relayCPUs) > 0:
		err = errors.Join(err, errors.New("--relay-cpus is for a relay that --start starts; pin one that runs with taskset"))
	}
	return err
}

func (c *fanoutCommand) run(ctx context.Context, urls []string) error {
	if err := c.validate(urls); err != nil {
		return err
	}
	urls = append(urls, "http://unknown:1") // until the relay that is started has told it
	targets, err := c.parse(urls[:1])
	if err != nil {
		return err
	}
	target := targets[0]
	if len(urls) == 1 {
		target.URL = ""
	}
	c.o.Target, c.o.Size, c.o.Keyframe = target, int(c.size), int(c.keyframe)
	if !c.quiet {
		c.o.Progress = &load.Progress{Out: c.stderr, Quiet: true}
	}
	return failed(c.measure(ctx))
}

// measure starts a relay where one is to be started.
func (c *fanoutCommand) measure(ctx context.Context) error {
	if c.start != "" {
		chain, err := load.StartChain(ctx, load.StartOptions{
			Command: strings.Fields(c.start), CPUs: c.relayCPUs, Target: c.o.Target, Output: c.stderr,
		}, c.hops)
		if err != nil {
			return err
		}
		defer chain.End()
		last := len(chain.Relays) - 1
		relay := chain.Relays[last]
		c.o.PID, c.o.Target, c.o.Status = relay.PID, relay.Target, relay.Status
		c.o.Entry = chain.Relays[0].Target
		for _, other := range chain.Relays[:last] {
			c.o.Behind = append(c.o.Behind, other.PID)
		}
	}
	if len(c.cpus) > 0 {
		if err := load.Pin(c.cpus); err != nil {
			return err
		}
	}
	report, err := load.Fanout(ctx, c.o)
	if err != nil {
		return err
	}
	return c.write(&report)
}

// write prints the report, and keeps it as JSON where that is asked for.
func (c *fanoutCommand) write(report *load.FanoutReport) error {
	if c.json == "" {
		return c.text(report)
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if c.json == "-" {
		_, err = c.stdout.Write(b)
		return err
	}
	if err := os.WriteFile(c.json, b, 0o666); err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return c.text(report)
}

func (c *fanoutCommand) text(report io.WriterTo) error {
	_, err := report.WriteTo(c.stdout)
	return err
}
