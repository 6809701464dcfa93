package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/moqrelay/operator/relay/load"
)

// exitUsage is the exit code for a command line that makes no sense; 1 is that of
// bytes that are wrong or missing and of a relay that cannot be reached.
const exitUsage = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// program is one run of the command, with all that it reads and writes.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// failure is an error of a command that was understood.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// run executes the command line and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "moq-load",
		Short: "Publish and watch tracks through a MoQ relay, and check every byte",
		Long: `Publish and watch tracks through a MoQ relay, and check every byte.

URL is the relay's: moqt://HOST:PORT is native QUIC, https:// WebTransport, ws:// and
wss:// WebSocket. http://HOST:PORT is a relay with a self-signed certificate: its hash
is fetched from there and pinned. A path in the URL is the root of the session.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(p.newPub(), p.newSub(), p.newClock(), p.newFanout())
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(p.stderr, "moq-load: %v\n", err)
	if _, ok := errors.AsType[*failure](err); !ok {
		fmt.Fprintf(p.stderr, "next: %s --help has all flags and examples\n", command.CommandPath())
		return exitUsage
	}
	if advice := load.Advice(err); advice != "" {
		fmt.Fprintf(p.stderr, "next: %s\n", advice)
	}
	return 1
}

// urlCount refuses a number of URLs that a command cannot use.
func urlCount(least, most int) cobra.PositionalArgs {
	return func(_ *cobra.Command, urls []string) error {
		switch {
		case len(urls) < least:
			return errors.New("no relay is named: add its URL, such as http://127.0.0.1:4443 for one that `moq-relay serve --dev` runs")
		case len(urls) > most:
			return fmt.Errorf("%d URLs are given (%q): this command takes %d", len(urls), urls, most)
		}
		return nil
	}
}

// failed marks the error of a command that was understood.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

// common are the flags of every command.
type common struct {
	target           load.TargetText
	broadcast, track string
	quiet, verbose   bool
}

func (c *common) register(flags *pflag.FlagSet, broadcast, track string) {
	flags.StringVar(&c.broadcast, "broadcast", broadcast, "path of the broadcast, below the URL's path")
	flags.StringVar(&c.track, "track", track, "name of the track")
	c.registerTarget(flags)
}

// registerTarget adds the flags that say how to connect and what to tell.
func (c *common) registerTarget(flags *pflag.FlagSet) {
	flags.StringVar(&c.target.Transport, "transport", "", "quic, webtransport or websocket instead of what the URL's scheme says")
	flags.StringVar(&c.target.Version, "version", "", "protocols to offer, such as moq-lite-05 (default: all released, newest first)")
	flags.StringVar(&c.target.Draft, "qmux-draft", "", "drafts to offer over WebSocket, such as qmux-02 (default: all, newest first)")
	flags.StringArrayVar(&c.target.CertificateHashes, "certificate-sha256", nil, "hash that the relay's certificate must have, instead of a trusted issuer")
	flags.DurationVar(&c.target.IdleTimeout, "idle-timeout", 0, "after how long without a word from the relay the session is lost; 0: 30s")
	flags.BoolVar(&c.target.Insecure, "insecure", false, "accept any certificate")
	flags.BoolVar(&c.quiet, "quiet", false, "do not show progress each second")
	flags.BoolVar(&c.verbose, "verbose", false, "tell what the session does")
}

// parse returns the targets of URLs.
func (c *common) parse(urls []string) ([]load.Target, error) {
	var targets []load.Target
	for _, u := range urls {
		text := c.target
		text.URL = u
		target, err := text.Parse()
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	return targets, nil
}

func (c *common) log(to io.Writer) *slog.Logger {
	if !c.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// inRange is an error that names a flag whose value is out of its range.
func inRange[N int | float64](flag string, value, least, most N) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("--%s %v: %v to %v are possible", flag, value, least, most)
}
