package controllers

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/controllers/render"
	"github.com/moqrelay/operator/relay/preflight"
)

// noon is the present of all tests of pure functions.
var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// newRelay is a relay as the API server gives it: defaults filled in, three
// replicas, NodePort, certificate from Secret "tls".
func newRelay() *v1alpha1.MoQRelay {
	return &v1alpha1.MoQRelay{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "media", UID: types.UID("11111111-2222-3333-4444-555555555555"), Generation: 2},
		Spec: v1alpha1.MoQRelaySpec{
			Replicas: new(int32(3)),
			Auth:     v1alpha1.AuthSpec{Mode: v1alpha1.AuthNone},
			Windows: v1alpha1.WindowsSpec{
				Stream: new(resource.MustParse("1Mi")), Connection: new(resource.MustParse("4Mi")), PacingCap: new(resource.MustParse("16Mi")),
				MaxIncomingStreams: new(int32(1024)),
			},
			SocketBuffers: v1alpha1.SocketBuffersSpec{
				Receive: new(resource.MustParse("4Mi")), Send: new(resource.MustParse("4Mi")),
				Mode: v1alpha1.SocketBuffersAuto, Requirement: v1alpha1.SocketBuffersPreferred,
			},
			TLS:     v1alpha1.TLSSpec{Mode: v1alpha1.TLSSecret, SecretName: "tls"},
			Service: v1alpha1.ServiceSpec{Type: v1alpha1.ServiceNodePort, Port: new(int32(443))},
			Resources: v1alpha1.ResourcesSpec{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			},
			Drain: v1alpha1.DrainSpec{TimeoutSeconds: new(int32(300))},
		},
	}
}

// newObservation sees newRelay with everything as it should be: three ready pods.
func newObservation() observation {
	o := observation{
		relay: newRelay(),
		deployment: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 4},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3))},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: 4, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
				Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}},
			},
		},
		service: &corev1.Service{Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIPs: []string{"10.96.0.7", "fd00::7"},
			Ports: []corev1.ServicePort{{Name: "moq-udp", Protocol: corev1.ProtocolUDP, Port: 443, NodePort: 30443}, {Name: "moq-tcp", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443}},
		}},
		pods: readPods([]corev1.Pod{newPod("demo-a", "n1"), newPod("demo-b", "n2"), newPod("demo-c", "n2")}),
		intended: intended{
			image: "example.test/moq-relay:1", configHash: "aa", liveConfigHash: "bb",
			mode: v1alpha1.SocketBuffersVerify, selector: map[string]string{"app": "moq"},
		},
		version: "v0.1.0",
		now:     noon,
	}
	for i := range o.pods {
		o.pods[i].reading = health.Reading{Answered: true, Mesh: true, Expected: 2, Connected: 2, ConfigHash: "aa", LiveHash: "bb"}
	}
	return o
}

// newPod is a ready pod whose node granted all that was asked, with a certificate
// that ends in 60 days.
func newPod(name, node string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(time.Hour)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "192.0.2." + strings.TrimPrefix(node, "n"), PodIP: "10.1.0." + strings.TrimPrefix(node, "n"),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: render.ContainerPreflight, Image: "example.test/moq-relay:1"}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: render.ContainerRelay, Image: "example.test/moq-relay:1",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Hour)}},
			}},
		},
	}
	setReport(&p, goodReport(node))
	return p
}

// newStartingPod is newPod before its relay is ready.
func newStartingPod(name, node string) corev1.Pod {
	p := newPod(name, node)
	p.Status.Conditions[1].Status = corev1.ConditionFalse
	return p
}

func goodReport(node string) preflight.Report {
	end := noon.Add(60 * 24 * time.Hour)
	return preflight.Report{
		V: preflight.SchemaVersion, Node: node, Mode: "Verify",
		RX:    &preflight.Buffer{Want: 4 << 20, Max: 4 << 20, Got: 4 << 20},
		TX:    &preflight.Buffer{Want: 4 << 20, Max: 4 << 20, Got: 4 << 20},
		Certs: []preflight.Cert{{Secret: "tls", NotAfter: &end, Names: []string{"relay.example.test"}, SHA256: "c0ffee"}},
	}
}

func setReport(p *corev1.Pod, r preflight.Report) {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	setEnd(&p.Status.InitContainerStatuses[0], 0, string(text))
}

// setEnd makes a container one that has ended an hour ago.
func setEnd(c *corev1.ContainerStatus, code int32, message string) {
	c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: ago(time.Hour)}}
}

// setWaiting makes a container one that waits.
func setWaiting(c *corev1.ContainerStatus, reason, message string) {
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// A conditionCase changes newObservation and says what the condition must be.
type conditionCase struct {
	name   string
	change func(o *observation)
	status metav1.ConditionStatus
	reason string
	// message holds parts that the message must contain.
	message []string
	// until is when the verdict may change by itself; zero: never.
	until time.Time
}

func runConditionCases(t *testing.T, judge func(observation) verdict, cases []conditionCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := newObservation()
			if c.change != nil {
				c.change(&o)
			}
			got := judge(o)
			if got.status != c.status || got.reason != c.reason {
				t.Errorf("got %s/%s (%s), want %s/%s", got.status, got.reason, got.message, c.status, c.reason)
			}
			for _, part := range c.message {
				if !strings.Contains(got.message, part) {
					t.Errorf("message %q does not contain %q", got.message, part)
				}
			}
			if !got.until.Equal(c.until) {
				t.Errorf("until is %v, want %v", got.until, c.until)
			}
		})
	}
}

// onePod replaces the pods by one.
func onePod(o *observation, p corev1.Pod) { o.pods = readPods([]corev1.Pod{p}) }

// failing is a Deployment's condition that its pods cannot be made.
func failing(message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: message}
}
