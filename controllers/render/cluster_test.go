// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

// relayEnv is the environment of the relay container.
func relayEnv(objects *render.Objects) []corev1.EnvVar {
	return objects.Deployment.Spec.Template.Spec.Containers[0].Env
}

func hasPort(objects *render.Objects, port int32, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(objects.Deployment.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.ContainerPort == port && p.Protocol == protocol
	})
}

func TestPodsOfAMeshFindEachOtherByAHeadlessServiceThatNamesStartingPodsToo(t *testing.T) {
	objects := mustRender(t, minimal(), options(false))
	s := objects.PeersService
	if s.Name != "demo-peers" || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses || *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack {
		t.Errorf("the Service is %s: %+v", s.Name, s.Spec)
	}
	if p := s.Spec.Ports; len(p) != 1 || p[0].Port != 4444 || p[0].Protocol != corev1.ProtocolUDP || !hasPort(objects, 4444, corev1.ProtocolUDP) {
		t.Errorf("its ports are %+v, want UDP 4444 alone, which the pod has", p)
	}
	file := objects.Config.Data["relay.yaml"]
	for _, want := range []string{`listen: ":4444"`, `peers: ["dns+https://demo-peers.tv.svc:4444"]`} {
		if !strings.Contains(file, want) {
			t.Errorf("the configuration lacks %s:\n%s", want, file)
		}
	}
	node := corev1.EnvVar{Name: "MOQ_CLUSTER_NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}}
	if !slices.ContainsFunc(relayEnv(objects), func(e corev1.EnvVar) bool {
		return e.Name == node.Name && *e.ValueFrom.FieldRef == *node.ValueFrom.FieldRef
	}) {
		t.Errorf("the relay's environment %+v lacks its UID", relayEnv(objects))
	}
}

func TestStandaloneAndSelfSignedPodsOpenNoPeerPort(t *testing.T) {
	for name, change := range map[string]func(s *v1alpha1.MoQRelaySpec){
		"Standalone": func(s *v1alpha1.MoQRelaySpec) { s.Cluster.Mode = v1alpha1.ClusterStandalone },
		"SelfSigned, which may say Mesh": func(s *v1alpha1.MoQRelaySpec) {
			s.TLS, s.Cluster.Mode = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned}, v1alpha1.ClusterMesh
		},
	} {
		relay := minimal()
		change(&relay.Spec)
		objects := mustRender(t, relay, options(false))
		if file := objects.Config.Data["relay.yaml"]; objects.PeersService != nil || hasPort(objects, 4444, corev1.ProtocolUDP) || strings.Contains(file, "4444") {
			t.Errorf("%s: Service %v, configuration:\n%s", name, objects.PeersService, file)
		}
	}
}

func TestUpstreamsAreInTheLiveFileWithTheirCost(t *testing.T) {
	relay := minimal()
	relay.Spec.Cluster.Upstreams = []v1alpha1.UpstreamSpec{
		{URL: "https://origin.example.com:443/live?jwt=a.b.c", Cost: new(int32(10))}, {URL: "https://[2001:db8::1]:4443"},
	}
	objects := mustRender(t, relay, options(false))
	file := objects.LiveConfig.Data["live.yaml"]
	for _, want := range []string{"https://origin.example.com:443/live?jwt=a.b.c", "cost: 10", "https://[2001:db8::1]:4443"} {
		if !strings.Contains(file, want) {
			t.Errorf("the live file lacks %s:\n%s", want, file)
		}
	}
	if strings.Count(file, "cost:") != 1 {
		t.Errorf("an unset cost is rendered:\n%s", file)
	}
	if strings.Contains(objects.Config.Data["relay.yaml"], "origin.example.com") {
		t.Errorf("the file that needs a restart names an upstream:\n%s", objects.Config.Data["relay.yaml"])
	}
}

// reached lists who reaches a port by the policy: "all", or the selectors.
func reached(p *networkingv1.NetworkPolicy, port int, protocol corev1.Protocol) []string {
	var who []string
	for _, rule := range p.Spec.Ingress {
		if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
			return p.Port.IntValue() == port && *p.Protocol == protocol
		}) {
			continue
		}
		if len(rule.From) == 0 {
			who = append(who, "all")
		}
		for _, from := range rule.From {
			who = append(who, "namespace "+metav1.FormatLabelSelector(from.NamespaceSelector)+" pod "+metav1.FormatLabelSelector(from.PodSelector))
		}
	}
	return who
}

func TestThePolicyLetsEachPortBeReachedByThoseWhoNeedIt(t *testing.T) {
	relay := minimal()
	relay.Spec.NetworkPolicy.MetricsFrom = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "sre"}}}}
	p := mustRender(t, relay, options(false)).NetworkPolicy
	own := "app.kubernetes.io/instance=demo,app.kubernetes.io/name=moq-relay"
	for _, row := range []struct {
		port     int
		protocol corev1.Protocol
		want     []string
	}{
		{4443, corev1.ProtocolUDP, []string{"all"}},
		{4443, corev1.ProtocolTCP, []string{"all"}},
		{4444, corev1.ProtocolUDP, []string{"namespace <none> pod " + own}},
		{4444, corev1.ProtocolTCP, nil},
		{9090, corev1.ProtocolTCP, []string{
			"namespace kubernetes.io/metadata.name=moq-relay-operator pod app.kubernetes.io/name=moq-relay-operator", "namespace team=sre pod <none>",
		}},
		{9090, corev1.ProtocolUDP, nil},
	} {
		if got := reached(p, row.port, row.protocol); !slices.Equal(got, row.want) {
			t.Errorf("%d/%s is reached by %q, want %q", row.port, row.protocol, got, row.want)
		}
	}
	if !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress"}) || metav1.FormatLabelSelector(&p.Spec.PodSelector) != own {
		t.Errorf("the policy is about %v of %s, want ingress of the relay's pods alone", p.Spec.PolicyTypes, metav1.FormatLabelSelector(&p.Spec.PodSelector))
	}
}

func TestWithoutAnyoneToReadItTheStatusPortIsClosedAndNotOpen(t *testing.T) {
	opts := options(false)
	opts.OperatorNamespace = ""
	if got := reached(mustRender(t, minimal(), opts).NetworkPolicy, 9090, corev1.ProtocolTCP); got != nil {
		t.Errorf("the status port is reached by %q, want nobody", got)
	}
}
