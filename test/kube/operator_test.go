//go:build kube

package kube

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers"
	"github.com/moqrelay/operator/controllers/render"
)

// operatorUser is the operator's ServiceAccount, whose rights are config/rbac.
const operatorUser = "system:serviceaccount:moq-relay-operator:moq-relay-operator"

// An operator runs in this process, for one namespace.
type operator struct {
	namespace  string
	stop       func() // returns when it has stopped; may be called again
	reconciler *controllers.Reconciler

	mu     sync.Mutex
	writes []string // "PATCH /apis/…", events and leases aside
	events int
	passes int
}

// newOperator starts an operator that works on one namespace. It is stopped when
// the test ends.
func newOperator(t testing.TB, namespace string, change ...func(r *controllers.Reconciler)) *operator {
	t.Helper()
	op := &operator{namespace: namespace}
	cfg := rest.CopyConfig(adminCfg)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: operatorUser, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next, op} })
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Cache: controllers.CacheOptions([]string{namespace}),
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &controllers.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("moq-relay-operator"),
		Render: render.Options{RelayImage: relayImage, OperatorNamespace: "moq-relay-operator"}, Version: "v0.1.0-test", Now: op.clock,
	}
	for _, f := range change {
		f(r)
	}
	op.reconciler = r
	if err := r.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	op.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	})
	t.Cleanup(op.stop)
	return op
}

// clock counts passes: each asks once for the time.
func (op *operator) clock() time.Time {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.passes++
	return time.Now()
}

// count is what the operator did until now.
func (op *operator) count() (writes []string, passes int) {
	op.mu.Lock()
	defer op.mu.Unlock()
	return slices.Clone(op.writes), op.passes
}

// forget sets the count of writes to nothing.
func (op *operator) forget() {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.writes, op.events = nil, 0
}

// turn makes the operator pass over the relay twice: a foreign annotation calls
// for a pass, and the second begins only when the first has ended.
func (op *operator) turn(t *testing.T, relay *v1alpha1.MoQRelay) {
	t.Helper()
	for range 2 {
		_, before := op.count()
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"test.example/turn":"%d"}}}`, time.Now().UnixNano()))
		if err := admin.Patch(t.Context(), relay.DeepCopy(), patch); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a pass", func() error {
			if _, now := op.count(); now == before {
				return fmt.Errorf("%d passes", now)
			}
			return nil
		})
	}
}

// wantNoWrites fails unless the operator comes to rest, and then passes over the
// relay without a write.
func (op *operator) wantNoWrites(t *testing.T, relay *v1alpha1.MoQRelay) {
	t.Helper()
	eventually(t, "rest", func() error {
		op.catchUp(t, relay)
		op.forget()
		op.turn(t, relay)
		if writes, _ := op.count(); len(writes) > 0 {
			return fmt.Errorf("wrote %q", writes)
		}
		return nil
	})
	op.turn(t, relay)
	if writes, passes := op.count(); len(writes) > 0 {
		t.Errorf("at rest the operator wrote %q (pass %d), want nothing", writes, passes)
	}
}

// catchUp waits until the operator's cache has all that the API server has of the relay.
func (op *operator) catchUp(t testing.TB, relay *v1alpha1.MoQRelay) {
	t.Helper()
	eventually(t, "cache", func() error {
		live, cached := versions(t, admin, relay), versions(t, op.reconciler.Client, relay)
		if !maps.Equal(live, cached) {
			return fmt.Errorf("it has %v of %v", cached, live)
		}
		return nil
	})
}

// versions are the resource versions of a relay and of all that is labelled ours
// in its namespace.
func versions(t testing.TB, c client.Reader, relay *v1alpha1.MoQRelay) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{},
		&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &corev1.PodList{},
	} {
		ours := client.MatchingLabels{"app.kubernetes.io/managed-by": controllers.FieldManager}
		if err := c.List(t.Context(), list, client.InNamespace(relay.Namespace), ours); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			found[fmt.Sprintf("%T %s", obj, obj.GetName())] = obj.GetResourceVersion()
			return nil
		})
	}
	now := &v1alpha1.MoQRelay{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(relay), now); err != nil {
		t.Fatal(err)
	}
	found["relay"] = now.ResourceVersion
	return found
}

// counter notes the writes that go through it.
type counter struct {
	next http.RoundTripper
	op   *operator
}

func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		c.op.mu.Lock()
		if strings.Contains(req.URL.Path, "/events") {
			c.op.events++
		} else {
			c.op.writes = append(c.op.writes, req.Method+" "+strings.TrimPrefix(req.URL.Path, "/"))
		}
		c.op.mu.Unlock()
	}
	return c.next.RoundTrip(req)
}
