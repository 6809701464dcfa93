package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers"
	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/controllers/render"
)

const (
	programName = "moq-relay-operator"
	leaseName   = "moq-relay-operator.moqrelay.io"

	// Requests per second to the API server, and how many may come at once: a
	// thousand MoQRelays made at once take eight writes each.
	clientQPS   = 200
	clientBurst = 400
)

func run(ctx context.Context, o options) error {
	log := newLogger(o)
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server (in-cluster, --kubeconfig, KUBECONFIG or ~/.kube/config): %w", err)
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = clientQPS, clientBurst, programName+"/"+ownVersion()
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	log.Info("starting", "version", ownVersion(), "apiServer", cfg.Host, "relayImage", o.relayImage, "namespaces", o.namespaces,
		"hostAccess", o.hostAccess, "leaderElect", o.leaderElect)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	log.Info("stopped")
	return nil
}

// newManager wires the operator together; nothing runs yet.
func newManager(cfg *rest.Config, o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	shutdown := 20 * time.Second
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controllers.CacheOptions(o.namespaces),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthProbeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.leaderNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &shutdown,
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	reconciler := &controllers.Reconciler{
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Events:      mgr.GetEventRecorder(programName),
		Render:      render.Options{RelayImage: o.relayImage, MaxNodeBuffer: o.nodeBuffer, OperatorNamespace: ownNamespace()},
		AllowHost:   o.hostAccess == hostAccessAll,
		Concurrency: o.concurrency,
		Version:     ownVersion(),
	}
	if o.collectInterval > 0 {
		reconciler.Health = &health.Config{Interval: o.collectInterval}
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the controller: %w", err)
	}
	schema := &controllers.SchemaCheck{Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(programName)}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("crd", servesOurKind(mgr.GetRESTMapper())),
		mgr.AddReadyzCheck("schema", schema.Check),
	); err != nil {
		return nil, fmt.Errorf("add probes: %w", err)
	}
	return mgr, nil
}

// ownNamespaceFile is where a pod finds the name of its namespace.
const ownNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is the namespace of the operator's pod; empty outside of one.
func ownNamespace() string {
	name, err := os.ReadFile(ownNamespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// servesOurKind is ready when the API server serves MoQRelay at our version.
func servesOurKind(mapper meta.RESTMapper) healthz.Checker {
	return func(*http.Request) error {
		kind := v1alpha1.GroupVersion.WithKind("MoQRelay")
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return fmt.Errorf("the API server does not serve %s: is the CRD of this release installed? %w", kind, err)
		}
		return nil
	}
}

// newLogger writes to standard error, one line per message.
func newLogger(o options) logr.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		level = slog.LevelInfo // validate has refused all others
	}
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat == "text" {
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, options))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, options))
}
