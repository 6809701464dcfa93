//go:build kube

package kube

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/moqrelay/operator/api/v1alpha1"
)

const (
	root = "../.."
	// failsafe ends a wait for something that does not come.
	failsafe = time.Minute
	// relayImage is what the operator under test gives to relays.
	relayImage = "moqrelay.test/moq-relay:1"
)

// The API server of all tests, and clients that may do everything.
var (
	scheme     = runtime.NewScheme()
	adminCfg   *rest.Config
	admin      client.Client
	kubeconfig string
	kubectl    string
	namespaces atomic.Int64
)

func TestMain(m *testing.M) {
	code, err := withAPIServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/kube:", err)
		code = 1
	}
	os.Exit(code)
}

func withAPIServer(run func() int) (code int, err error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return 1, fmt.Errorf("KUBEBUILDER_ASSETS is not set: it must name the folder of etcd, kube-apiserver and kubectl")
	}
	log.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 1, err
		}
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:        []string{filepath.Join(root, "config/crd/bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: failsafe, ControlPlaneStopTimeout: failsafe,
	}
	if adminCfg, err = env.Start(); err != nil {
		return 1, fmt.Errorf("start the API server: %w", err)
	}
	defer func() {
		if stopErr := env.Stop(); err == nil {
			err = stopErr
		}
	}()
	adminCfg.QPS, adminCfg.Burst = 1000, 1000
	if admin, err = client.New(adminCfg, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "moqrelay-kube-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	kubeconfig, kubectl = filepath.Join(dir, "kubeconfig"), filepath.Join(assets, "kubectl")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 1, err
	}
	if err := installRights(); err != nil {
		return 1, err
	}
	return run(), nil
}

// installRights gives the operator's ServiceAccount what config/rbac gives it.
func installRights() error {
	if err := admin.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "moq-relay-operator"}}); err != nil {
		return err
	}
	out, err := exec.Command(kubectl, "--kubeconfig", kubeconfig, "apply", "-k", filepath.Join(root, "config/rbac")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apply config/rbac: %w\n%s", err, out)
	}
	return nil
}

// newNamespace makes a namespace of the test's own.
func newNamespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("media-%d", namespaces.Add(1))
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// eventually waits until check finds no fault, and fails with the last fault if
// that does not come.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, failsafe, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v (last: %v)", what, err, last)
	}
}
