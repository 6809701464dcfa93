package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/preflight"
)

// exitUsage is the exit code for a command line that makes no sense.
const exitUsage = 2

func main() {
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ()}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// program is one run of the command, with all that it reads and writes.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string
}

// failure is an error of a command that was understood.
type failure struct {
	err  error
	code int
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// run executes the command line and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.newRoot()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitUsage
	if f, ok := errors.AsType[*failure](err); ok {
		code = f.code
	}
	p.complain(err)
	return code
}

// newRoot is the command with all its subcommands.
func (p *program) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "moq-relay",
		Short:         "A relay for Media over QUIC",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(p.newServe(), p.newPreflight(), p.newValidate(), p.newConfig(), p.newToken(), p.newVersion())
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// complain tells the person what went wrong, a fault of the configuration a line.
func (p *program) complain(err error) {
	faults := config.AsFaults(err)
	if faults == nil {
		fmt.Fprintf(p.stderr, "moq-relay: %v\n", err)
		return
	}
	fmt.Fprintf(p.stderr, "moq-relay: the configuration has %s:\n", counted(len(faults), "fault"))
	for line := range strings.Lines(faults.Error()) {
		fmt.Fprintf(p.stderr, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// counted is a number and its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// fail turns an error into one with an exit code: that for users where they can
// correct it. Nil stays nil.
func fail(err error) error {
	if err == nil {
		return nil
	}
	code := 1
	if config.AsFaults(err) != nil {
		code = preflight.ExitCode
	}
	return &failure{err, code}
}
