package controllers

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// allConditions are the types that every status has.
var allConditions = []string{
	"Ready", "Reconciled", "Available", "Progressing", "Degraded", "SocketBuffersReady", "CertificateReady", "AddressReady",
	"DataPlaneHealthy", "ConfigurationApplied",
}

func TestEveryConditionExistsAfterTheFirstPass(t *testing.T) {
	o := newObservation()
	o.deployment, o.service, o.pods = nil, nil, nil
	s, _ := status(o)
	var got []string
	for _, c := range s.Conditions {
		got = append(got, c.Type)
		if c.ObservedGeneration != 2 || c.Reason == "" || c.Message == "" || !c.LastTransitionTime.Equal(&metav1.Time{Time: noon}) {
			t.Errorf("%s lacks something: %+v", c.Type, c)
		}
		if c.Type != v1alpha1.ConditionReconciled && (c.Status != unknownStatus || c.Reason != v1alpha1.ReasonPending) {
			t.Errorf("%s is %s/%s before anything was seen, want Unknown/Pending", c.Type, c.Status, c.Reason)
		}
	}
	if !slices.Equal(got, allConditions) {
		t.Errorf("conditions are %v, want %v", got, allConditions)
	}
	if s.ObservedGeneration != 2 || s.OperatorVersion != "v0.1.0" {
		t.Errorf("observedGeneration %d, operatorVersion %q; want 2 and v0.1.0", s.ObservedGeneration, s.OperatorVersion)
	}
}

func TestTheStatusOfAHealthyRelay(t *testing.T) {
	s, wake := status(newObservation())
	want := map[string]string{
		"Ready": "True/Ready", "Reconciled": "True/Applied", "Available": "True/MinimumReady", "Progressing": "False/RolloutComplete",
		"Degraded": "False/AsExpected", "SocketBuffersReady": "True/Granted", "CertificateReady": "True/Valid", "AddressReady": "True/Assigned",
		"DataPlaneHealthy": "True/Healthy", "ConfigurationApplied": "True/Converged",
	}
	for _, c := range s.Conditions {
		if got := string(c.Status) + "/" + c.Reason; got != want[c.Type] {
			t.Errorf("%s is %s, want %s", c.Type, got, want[c.Type])
		}
	}
	if s.Replicas != 3 || s.ReadyReplicas != 3 || s.UpdatedReplicas != 3 || s.DrainingReplicas != 0 {
		t.Errorf("counters are %d %d %d %d, want 3 3 3 0", s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.DrainingReplicas)
	}
	if s.Selector != "app=moq" || s.Image != "example.test/moq-relay:1" || s.ConfigHash != "aa" || s.LiveConfigHash != "bb" {
		t.Errorf("selector %q, image %q, hashes %q %q", s.Selector, s.Image, s.ConfigHash, s.LiveConfigHash)
	}
	if len(s.Certificates) != 1 || s.Certificates[0].SHA256 != "c0ffee" || !slices.Equal(s.Certificates[0].DNSNames, []string{"relay.example.test"}) {
		t.Errorf("certificates are %+v, want one of Secret tls", s.Certificates)
	}
	if !wake.Equal(noon.Add(46 * 24 * time.Hour)) {
		t.Errorf("looked at again at %v, want 14 days before the end of the certificate", wake)
	}
}

func TestTheSameObservationGivesTheSameStatus(t *testing.T) {
	o := newObservation()
	first, _ := status(o)
	o.relay.Status = first
	o.now = noon.Add(time.Hour)
	if second, _ := status(o); !equality.Semantic.DeepEqual(first, second) {
		t.Errorf("an hour later, with nothing changed, the status differs:\n%+v\n%+v", first, second)
	}
}

func TestATransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	o := newObservation()
	o.relay.Status, _ = status(o)
	o.now = noon.Add(time.Minute)
	o.deployment.Status.AvailableReplicas = 0
	s, _ := status(o)
	available := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAvailable)
	reconciled := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReconciled)
	if !available.LastTransitionTime.Time.Equal(noon.Add(time.Minute)) || !reconciled.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("Available moved at %v and Reconciled at %v, want 12:01 and 12:00", available.LastTransitionTime, reconciled.LastTransitionTime)
	}
}

func TestDrainingPodsAreCountedApart(t *testing.T) {
	o := newObservation()
	leaving := newPod("demo-d", "n1")
	leaving.DeletionTimestamp = new(ago(0))
	o.pods = readPods([]corev1.Pod{newPod("demo-a", "n1"), newStartingPod("demo-b", "n1"), leaving})
	s, _ := status(o)
	if s.Replicas != 2 || s.ReadyReplicas != 1 || s.DrainingReplicas != 1 {
		t.Errorf("replicas %d, ready %d, draining %d; want 2, 1 and 1", s.Replicas, s.ReadyReplicas, s.DrainingReplicas)
	}
}

func TestSocketBufferStatusHasTheSmallestGrantAndTheNodesBelow(t *testing.T) {
	o := newObservation()
	grantedPods(&o, 212992, 4<<20, preflight.ReasonReceiveBelowRequested)
	s, _ := status(o)
	b := s.SocketBuffers
	if b.Mode != v1alpha1.SocketBuffersVerify || b.Receive.Requested.Value() != 4194304 || b.Receive.GrantedMin.Value() != 212992 ||
		b.Send.GrantedMin.Value() != 4194304 || !slices.Equal(b.NodesBelow, []string{"n2"}) {
		t.Errorf("socketBuffers are %+v, want 212992 of 4194304 for receive, 4194304 for send, node n2 below", b)
	}
}

func TestAtMostTenNodesBelowAreNamed(t *testing.T) {
	o := newObservation()
	var pods []corev1.Pod
	for _, node := range strings.Split("n01 n02 n03 n04 n05 n06 n07 n08 n09 n10 n11 n12", " ") {
		p := newPod("demo-"+node, node)
		r := goodReport(node)
		r.RX.Got = 1
		setReport(&p, r)
		pods = append(pods, p)
	}
	o.pods = readPods(pods)
	if got := socketBufferStatus(o).NodesBelow; len(got) != 10 || got[0] != "n01" || got[9] != "n10" {
		t.Errorf("nodesBelow is %v, want n01 to n10", got)
	}
}

func TestARefusedSpecKeepsWhatWasRenderedBefore(t *testing.T) {
	o := newObservation()
	o.relay.Status, _ = status(o)
	o.intended, o.fault = intended{}, faultf(v1alpha1.ReasonHostAccessNotAllowed, "no label")
	s, _ := status(o)
	if s.ConfigHash != "aa" || s.Image != "example.test/moq-relay:1" || s.SocketBuffers == nil {
		t.Errorf("image %q, hash %q, socketBuffers %v; want those of before", s.Image, s.ConfigHash, s.SocketBuffers)
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonHostAccessNotAllowed {
		t.Errorf("Ready says %s, want HostAccessNotAllowed", c.Reason)
	}
}

func TestTheNewestReportOfASecretCounts(t *testing.T) {
	o := newObservation()
	older, newer := newPod("demo-a", "n1"), newPod("demo-b", "n1")
	older.CreationTimestamp = ago(2 * time.Hour)
	r := goodReport("n1")
	r.Certs[0].SHA256 = "01d"
	setReport(&older, r)
	o.pods = readPods([]corev1.Pod{older, newer})
	if got := certificates(o); len(got) != 1 || got[0].SHA256 != "c0ffee" {
		t.Errorf("certificates are %+v, want the newer pod's c0ffee", got)
	}
}

func TestALongTextIsCutAtARune(t *testing.T) {
	if got := clip("aéé", 4); got != "a…" {
		t.Errorf("got %q, want %q", got, "a…")
	}
	if got := clip("short", 5); got != "short" {
		t.Errorf("got %q, want it whole", got)
	}
	if got := clip(strings.Repeat("é", 600), 1024); len(got) > 1024 || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-6:])
	}
}
