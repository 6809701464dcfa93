package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/moqrelay/operator/controllers/health"
)

const (
	hostAccessLabeled = "labeled"
	hostAccessAll     = "all"

	// Bounds of --max-node-buffer, in bytes: the smallest and the largest socket
	// buffer that a MoQRelay may ask for.
	minNodeBuffer = 208 << 10
	maxNodeBuffer = 512 << 20

	maxConcurrency = 256

	// Bounds of --collect-interval.
	minCollect = 5 * time.Second
	maxCollect = 10 * time.Minute

	maxImage = 512
)

var logLevels = []string{"debug", "info", "warn", "error"}

// options are the operator's flags.
type options struct {
	relayImage         string
	namespaces         []string
	hostAccess         string
	maxNodeBuffer      string
	concurrency        int
	collectInterval    time.Duration
	metricsAddress     string
	healthProbeAddress string
	leaderElect        bool
	leaderNamespace    string
	logLevel           string
	logFormat          string

	nodeBuffer int64 // of maxNodeBuffer, in bytes
}

// A usageError says what is wrong with the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "moq-relay-operator",
		Short: "Kubernetes operator for Media-over-QUIC relays",
		Long: "moq-relay-operator watches MoQRelay objects and keeps a Deployment, a Service and the\n" +
			"configuration of their relays as the objects ask for. It reads no Secret.",
		Args:          noArguments,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       ownVersion(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return &usageError{err}
			}
			return run(cmd.Context(), o)
		},
	}
	cmd.SetVersionTemplate("moq-relay-operator {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	o.register(cmd.Flags())
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(goFlags) // --kubeconfig
	cmd.Flags().AddGoFlagSet(goFlags)
	cmd.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: noArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "moq-relay-operator", ownVersion())
		},
	})
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("%s takes no argument, got %q", cmd.CommandPath(), args[0])}
	}
	return nil
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.relayImage, "relay-image", "ghcr.io/moqrelay/moq-relay:"+imageTag(),
		"image of relays whose spec.image is unset")
	f.StringSliceVar(&o.namespaces, "namespaces", nil, "namespaces to watch, comma separated; none means all")
	f.StringVar(&o.hostAccess, "host-access", hostAccessLabeled,
		"which namespaces may use socketBuffers.mode RaiseNode: labeled (those with moqrelay.io/host-access=allowed) or all")
	f.StringVar(&o.maxNodeBuffer, "max-node-buffer", "64Mi", "most to which a node's net.core.rmem_max and wmem_max are raised, 208Ki to 512Mi")
	f.IntVar(&o.concurrency, "concurrency", 8, "MoQRelays worked on at once, 1 to 256")
	f.DurationVar(&o.collectInterval, "collect-interval", health.DefaultInterval,
		"how often each relay pod is asked for its status, 5s to 10m; 0 turns it off")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "HOST:PORT of /metrics (plain HTTP); 0 turns it off")
	f.StringVar(&o.healthProbeAddress, "health-probe-bind-address", ":8081", "HOST:PORT of /healthz and /readyz; 0 turns it off")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "let one of several operators work at a time; they wait for each other by a Lease")
	f.StringVar(&o.leaderNamespace, "leader-elect-namespace", "", "namespace of the Lease; default: the operator's own")
	f.StringVar(&o.logLevel, "log-level", "info", "least severe messages to log: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
}

// validate checks all flags and reports all that is wrong, each by its name.
func (o *options) validate() error {
	var faults []error
	fault := func(flag, format string, args ...any) {
		faults = append(faults, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if n := len(o.relayImage); n < 1 || n > maxImage {
		fault("relay-image", "must have 1 to %d characters, has %d", maxImage, n)
	}
	for _, name := range o.namespaces {
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			fault("namespaces", "%q is not a namespace's name: %s", name, strings.Join(wrong, "; "))
		}
	}
	if o.hostAccess != hostAccessLabeled && o.hostAccess != hostAccessAll {
		fault("host-access", "must be %s or %s, is %q", hostAccessLabeled, hostAccessAll, o.hostAccess)
	}
	if size, err := resource.ParseQuantity(o.maxNodeBuffer); err != nil || size.Value() < minNodeBuffer || size.Value() > maxNodeBuffer {
		fault("max-node-buffer", "must be a size of 208Ki to 512Mi, is %q", o.maxNodeBuffer)
	} else {
		o.nodeBuffer = size.Value()
	}
	if o.concurrency < 1 || o.concurrency > maxConcurrency {
		fault("concurrency", "must be 1 to %d, is %d", maxConcurrency, o.concurrency)
	}
	if d := o.collectInterval; d != 0 && (d < minCollect || d > maxCollect) {
		fault("collect-interval", "must be %v to %v, or 0 to turn it off; is %v", minCollect, maxCollect, d)
	}
	for flag, address := range map[string]string{"metrics-bind-address": o.metricsAddress, "health-probe-bind-address": o.healthProbeAddress} {
		if err := checkAddress(address); err != nil {
			fault(flag, "%v", err)
		}
	}
	if wrong := validation.IsDNS1123Label(o.leaderNamespace); o.leaderNamespace != "" && len(wrong) > 0 {
		fault("leader-elect-namespace", "%q is not a namespace's name: %s", o.leaderNamespace, strings.Join(wrong, "; "))
	}
	if !slices.Contains(logLevels, o.logLevel) {
		fault("log-level", "must be debug, info, warn or error, is %q", o.logLevel)
	}
	if o.logFormat != "json" && o.logFormat != "text" {
		fault("log-format", "must be json or text, is %q", o.logFormat)
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// checkAddress wants HOST:PORT, or 0 for off.
func checkAddress(address string) error {
	if address == "0" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("must be HOST:PORT with a port of 0 to 65535, or 0 to turn it off; is %q", address)
	}
	return nil
}
