// Cluster is a real one-node Kubernetes on this machine, from Go modules and a few
// Debian packages, for the demo and the end-to-end tests. README.md says how it is
// used.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/hack/cluster/internal/build"
	"github.com/moqrelay/operator/hack/cluster/internal/machine"
	"github.com/moqrelay/operator/hack/cluster/internal/node"
)

// sources are what hyperkube, coredns and the pause image are built from. They travel in
// the binary, so that it works from any folder, and so that the cache is keyed by
// exactly what is compiled.
//
//go:embed go.mod go.sum hyperkube coredns pause
var sources embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.Is(err, errNotUp):
		os.Exit(1)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A one-node Kubernetes on this machine, and away again without a trace",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), binCommand(), upCommand(), downCommand(), loadCommand(),
		statusCommand(), kubeconfigCommand(), kubectlCommand(), holdCommand())
	return root
}

// newCluster is the machine's one cluster, up or not.
func newCluster() (*node.Cluster, error) {
	dir, err := build.DefaultDir()
	if err != nil {
		return nil, err
	}
	return &node.Cluster{
		Dir:   node.Dir,
		Cache: &build.Cache{Dir: dir, Sources: sources, Out: os.Stdout},
		Out:   os.Stdout,
	}, nil
}

// simple is a command that does one thing with the cluster.
func simple(use, short string, do func(context.Context, *node.Cluster) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newCluster()
			if err != nil {
				return err
			}
			return do(cmd.Context(), c)
		},
	}
}

func buildCommand() *cobra.Command {
	return simple("build", "Build Kubernetes into the cache folder, if it is not there yet",
		func(ctx context.Context, c *node.Cluster) error {
			if err := c.Cache.Ensure(ctx); err != nil {
				return err
			}
			fmt.Println("programs are in", c.Cache.Bin())
			return nil
		})
}

func binCommand() *cobra.Command {
	return simple("bin", "Print the folder with the programs (KUBEBUILDER_ASSETS for tests)",
		func(_ context.Context, c *node.Cluster) error {
			fmt.Println(c.Cache.Bin())
			return nil
		})
}

func upCommand() *cobra.Command {
	return simple("up", "Bring the cluster up, building it first if need be", locked("cluster up", (*node.Cluster).Up))
}

func downCommand() *cobra.Command {
	return simple("down", "Remove the cluster and everything it changed on this machine", locked("cluster down", (*node.Cluster).Down))
}

// locked does what nobody else may do at the same time.
func locked(who string, do func(*node.Cluster, context.Context) error) func(context.Context, *node.Cluster) error {
	return func(ctx context.Context, c *node.Cluster) error {
		lock, err := take(who)
		if err != nil {
			return err
		}
		defer lock.Release()
		return do(c, ctx)
	}
}

// take takes the machine's lock, or shares that of the command that called us.
func take(who string) (*machine.Lock, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a cluster needs root: run this as root")
	}
	return machine.Take(node.LockPath, who, os.Getenv(machine.HeldVariable))
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "load TAR...", Short: "Load image archives (docker or OCI form) into the node", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := newCluster()
			if err != nil {
				return err
			}
			return c.Load(cmd.Context(), args)
		},
	}
}

// errNotUp is an exit status without a message: status has said it all.
var errNotUp = errors.New("not up")

func statusCommand() *cobra.Command {
	return simple("status", "Say whether the cluster is up (exit status 0) and what runs",
		func(_ context.Context, c *node.Cluster) error {
			up, err := c.Status()
			if err == nil && !up {
				err = errNotUp
			}
			return err
		})
}

func kubeconfigCommand() *cobra.Command {
	return simple("kubeconfig", "Print the path of the administrator's kubeconfig",
		func(_ context.Context, c *node.Cluster) error {
			fmt.Println(c.Kubeconfig())
			return nil
		})
}

// kubectlCommand becomes the cluster's own kubectl, never another one on the PATH.
func kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kubectl ARGS...", Short: "Run the cluster's own kubectl as its administrator", DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := newCluster()
			if err != nil {
				return err
			}
			if err := c.RequireUp(); err != nil {
				return err
			}
			program := filepath.Join(c.Cache.Bin(), "kubectl")
			argv := append([]string{program}, args...)
			if err := syscall.Exec(program, argv, append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())); err != nil {
				return fmt.Errorf("run %s: %w", program, err)
			}
			return nil
		},
	}
}

func holdCommand() *cobra.Command {
	var who string
	cmd := &cobra.Command{
		Use:   "hold --as NAME -- COMMAND...",
		Short: "Run a command while nobody else may bring the cluster up or down",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lock, err := take(who)
			if err != nil {
				return err
			}
			defer lock.Release()
			return runHeld(lock, args)
		},
	}
	cmd.Flags().StringVar(&who, "as", "", "who uses the cluster, as others are told (make demo)")
	_ = cmd.MarkFlagRequired("as")
	return cmd
}

// runHeld runs the command to its own end. Ctrl-C reaches the command by way of the
// terminal, so it is not passed on a second time; SIGTERM is.
func runHeld(lock *machine.Lock, argv []string) error {
	child := exec.Command(argv[0], argv[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), lock.Environment())
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	if err := child.Start(); err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	// Ends with the program, which has nothing else to do than to wait below.
	go func() {
		for s := range terms {
			_ = child.Process.Signal(s)
		}
	}()
	return child.Wait()
}
