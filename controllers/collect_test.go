package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
)

// threePods are demo-a (not ready), demo-b and demo-c, with their names as UIDs.
func threePods() []pod {
	items := []corev1.Pod{newStartingPod("demo-a", "n1"), newPod("demo-b", "n2"), newPod("demo-c", "n3")}
	for i := range items {
		items[i].UID = types.UID(items[i].Name)
	}
	return readPods(items)
}

func TestReadyPodsAreAskedOnTheirStatusPort(t *testing.T) {
	relay := newRelay()
	got := targets(relay, asked(threePods()), nil)
	want := []health.Pod{{UID: "demo-b", Address: "10.1.0.2:9090"}, {UID: "demo-c", Address: "10.1.0.3:9090"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("asked are %+v, want %+v", got, want)
	}
}

func TestAPodHasOthersToKnowWhenItWorksByTheConfigurationOfAMesh(t *testing.T) {
	for name, row := range map[string]struct {
		mode v1alpha1.ClusterMode
		tls  v1alpha1.TLSMode
		hash string
		want int
	}{
		"a mesh":                         {v1alpha1.ClusterMesh, v1alpha1.TLSSecret, "aa", 1},
		"a pod from before":              {v1alpha1.ClusterMesh, v1alpha1.TLSSecret, "a0", 0},
		"a pod that was not asked yet":   {v1alpha1.ClusterMesh, v1alpha1.TLSSecret, "", 0},
		"pods by themselves":             {v1alpha1.ClusterStandalone, v1alpha1.TLSSecret, "aa", 0},
		"self-signed, which is the same": {v1alpha1.ClusterMesh, v1alpha1.TLSSelfSigned, "aa", 0},
	} {
		relay := newRelay()
		relay.Spec.Cluster.Mode, relay.Spec.TLS.Mode, relay.Status.ConfigHash = row.mode, row.tls, "aa"
		got := targets(relay, asked(threePods()), map[string]health.Reading{"demo-b": {ConfigHash: row.hash}})
		if got[0].Others != row.want || got[1].Others != 0 {
			t.Errorf("%s: others are %d and %d, want %d and 0", name, got[0].Others, got[1].Others, row.want)
		}
	}
}
