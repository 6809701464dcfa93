//go:build kube

package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// peersOf names the Service by which the relay's pods find each other, to be read.
func peersOf(relay *v1alpha1.MoQRelay) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: relay.Namespace, Name: relay.Name + "-peers"}}
}

// policyOf names the relay's NetworkPolicy, to be read.
func policyOf(relay *v1alpha1.MoQRelay) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: relay.Namespace, Name: relay.Name}}
}

// wantGone waits until an object is not there.
func wantGone(t *testing.T, obj client.Object) {
	t.Helper()
	eventually(t, obj.GetName()+" gone", func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there (%v)", err)
		}
		return nil
	})
}

func TestTheModeOfAClusterMakesAndRemovesThePeersServiceAndRollsThePods(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	s := refresh(t, peersOf(relay))
	if s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 4444 || s.Spec.Ports[0].Protocol != corev1.ProtocolUDP {
		t.Errorf("the Service is %+v, want a headless one of UDP 4444 with starting pods", s.Spec)
	}
	mesh := configName(t, relay)
	op.wantNoWrites(t, relay)

	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Cluster.Mode = v1alpha1.ClusterStandalone })
	applied(t, relay)
	wantGone(t, peersOf(relay))
	if alone := configName(t, relay); alone == mesh {
		t.Errorf("the pods still have configuration %s", mesh)
	}
	op.wantNoWrites(t, relay)

	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Cluster.Mode = v1alpha1.ClusterMesh })
	applied(t, relay)
	refresh(t, peersOf(relay))
	if again := configName(t, relay); again != mesh {
		t.Errorf("back in the mesh the pods have configuration %s, want %s", again, mesh)
	}
	op.wantNoWrites(t, relay)
}

func TestASelfSignedRelayHasNoPeers(t *testing.T) {
	ns := newNamespace(t, nil)
	newOperator(t, ns)
	relay := newRelay(ns)
	relay.Spec.TLS = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned}
	create(t, relay)
	applied(t, relay)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(peersOf(relay)), peersOf(relay)); !apierrors.IsNotFound(err) {
		t.Errorf("reading the peers Service gives %v, want that there is none", err)
	}
	if relay.Spec.Cluster.Mode != v1alpha1.ClusterMesh {
		t.Errorf("cluster.mode is %q, want the default", relay.Spec.Cluster.Mode)
	}
}

func TestUpstreamsChangeTheLiveConfigurationAndRollNoPod(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	before, hash := refresh(t, deploymentOf(relay)).Generation, relay.Status.LiveConfigHash
	edit(t, relay, func(r *v1alpha1.MoQRelay) {
		r.Spec.Cluster.Upstreams = []v1alpha1.UpstreamSpec{{URL: "https://origin.example.com:443/live?jwt=a.b.c", Cost: new(int32(7))}}
	})
	applied(t, relay)
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo-live"}}
	if file := refresh(t, live).Data["live.yaml"]; !strings.Contains(file, "https://origin.example.com:443/live?jwt=a.b.c") || !strings.Contains(file, "cost: 7") {
		t.Errorf("the live file lacks the upstream:\n%s", file)
	}
	if after := refresh(t, deploymentOf(relay)).Generation; after != before || relay.Status.LiveConfigHash == hash {
		t.Errorf("the Deployment went from generation %d to %d, the live hash from %s to %s; want the hash alone changed", before, after, hash, relay.Status.LiveConfigHash)
	}
	op.wantNoWrites(t, relay)
}

func TestTheNetworkPolicyFollowsTheSpec(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	var ports []string
	for _, rule := range refresh(t, policyOf(relay)).Spec.Ingress {
		for _, p := range rule.Ports {
			ports = append(ports, fmt.Sprintf("%s %s from %d", *p.Protocol, p.Port, len(rule.From)))
		}
	}
	if want := []string{"UDP 4443 from 0", "TCP 4443 from 0", "UDP 4444 from 1", "TCP 9090 from 1"}; !slices.Equal(ports, want) {
		t.Errorf("the policy has %q, want %q", ports, want)
	}
	op.wantNoWrites(t, relay)

	edit(t, relay, func(r *v1alpha1.MoQRelay) {
		r.Spec.NetworkPolicy.MetricsFrom = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}}
	})
	applied(t, relay)
	rules := refresh(t, policyOf(relay)).Spec.Ingress
	if from := rules[len(rules)-1].From; len(from) != 2 || from[1].IPBlock == nil || from[1].IPBlock.CIDR != "192.0.2.0/24" {
		t.Errorf("the status port is open to %+v, want the operator and 192.0.2.0/24", from)
	}
	op.wantNoWrites(t, relay)

	edit(t, policyOf(relay), func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress = p.Spec.Ingress[:1] })
	eventually(t, "drift repaired", func() error {
		if n := len(refresh(t, policyOf(relay)).Spec.Ingress); n != 3 {
			return fmt.Errorf("%d rules", n)
		}
		return nil
	})

	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.NetworkPolicy.State = v1alpha1.Disabled })
	applied(t, relay)
	wantGone(t, policyOf(relay))
	op.wantNoWrites(t, relay)
}

func TestABadAddressBlockIsToldInTheAPIServersWords(t *testing.T) {
	ns := newNamespace(t, nil)
	newOperator(t, ns)
	relay := newRelay(ns)
	relay.Spec.NetworkPolicy.MetricsFrom = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "everyone"}}}
	create(t, relay)
	c := wantCondition(t, relay, v1alpha1.ConditionReconciled, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed)
	if !strings.Contains(c.Message, "NetworkPolicy") || !strings.Contains(c.Message, "cidr") {
		t.Errorf("the message %q names neither the object nor the field", c.Message)
	}
}
