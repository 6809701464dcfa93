// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/api/v1alpha1/apitest"
	"github.com/moqrelay/operator/controllers/render"
	"github.com/moqrelay/operator/relay/config"
)

// Which objects a change of one field reaches. Every field of the spec has a row,
// so none is without effect, and what its description says of a change holds.
const (
	live    = "live configuration"
	rolling = "pod template"
	svc     = "Service"
	peers   = "peers Service"
	netpol  = "NetworkPolicy"
	count   = "replicas"
	none    = "nothing"
)

var fields = []struct {
	path   string // as in the manifest
	change func(*v1alpha1.MoQRelaySpec)
	reach  string
}{
	{"replicas", func(s *v1alpha1.MoQRelaySpec) { s.Replicas = new(int32(2)) }, count},
	{"image", func(s *v1alpha1.MoQRelaySpec) { s.Image = "example.com/relay:2" }, rolling},
	{"imagePullPolicy", func(s *v1alpha1.MoQRelaySpec) { s.ImagePullPolicy = corev1.PullAlways }, rolling},
	{"imagePullSecrets", func(s *v1alpha1.MoQRelaySpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}} }, rolling},
	{"protocols", func(s *v1alpha1.MoQRelaySpec) { s.Protocols = []v1alpha1.Protocol{"moq-lite-06-wip"} }, rolling},
	{"transports.quic.state", func(s *v1alpha1.MoQRelaySpec) { s.Transports.QUIC.State = v1alpha1.Disabled }, rolling + ", " + svc},
	{"transports.quic.initialPacketSize", func(s *v1alpha1.MoQRelaySpec) { s.Transports.QUIC.InitialPacketSize = new(int32(1400)) }, rolling},
	{"transports.quic.idleTimeoutSeconds", func(s *v1alpha1.MoQRelaySpec) { s.Transports.QUIC.IdleTimeoutSeconds = new(int32(60)) }, rolling},
	{"transports.webTransport.state", func(s *v1alpha1.MoQRelaySpec) { s.Transports.WebTransport.State = v1alpha1.Disabled }, rolling},
	{"transports.webSocket.state", func(s *v1alpha1.MoQRelaySpec) { s.Transports.WebSocket.State = v1alpha1.Disabled }, rolling},
	{"transports.qmuxDrafts", func(s *v1alpha1.MoQRelaySpec) { s.Transports.QMuxDrafts = []v1alpha1.QMuxDraft{"02"} }, rolling},
	{"transports.allowedOrigins", func(s *v1alpha1.MoQRelaySpec) {
		s.Transports.AllowedOrigins = []v1alpha1.AllowedOrigin{"https://example.com"}
	}, rolling},
	{"windows.stream", func(s *v1alpha1.MoQRelaySpec) { s.Windows.Stream = quantity("2Mi") }, rolling},
	{"windows.connection", func(s *v1alpha1.MoQRelaySpec) { s.Windows.Connection = quantity("8Mi") }, rolling},
	{"windows.pacingCap", func(s *v1alpha1.MoQRelaySpec) { s.Windows.PacingCap = quantity("1Mi") }, live},
	{"windows.maxIncomingStreams", func(s *v1alpha1.MoQRelaySpec) { s.Windows.MaxIncomingStreams = new(int32(100)) }, rolling},
	{"socketBuffers.receive", func(s *v1alpha1.MoQRelaySpec) { s.SocketBuffers.Receive = quantity("8Mi") }, rolling},
	{"socketBuffers.send", func(s *v1alpha1.MoQRelaySpec) { s.SocketBuffers.Send = quantity("8Mi") }, rolling},
	{"socketBuffers.mode", func(s *v1alpha1.MoQRelaySpec) { s.SocketBuffers.Mode = v1alpha1.SocketBuffersRaiseNode }, rolling},
	{"socketBuffers.requirement", func(s *v1alpha1.MoQRelaySpec) { s.SocketBuffers.Requirement = v1alpha1.SocketBuffersRequired }, rolling},
	{"cache.maxBytes", func(s *v1alpha1.MoQRelaySpec) { s.Cache.MaxBytes = quantity("100Mi") }, live},
	{"cache.maxAgeSeconds", func(s *v1alpha1.MoQRelaySpec) { s.Cache.MaxAgeSeconds = new(int32(0)) }, live},
	{"limits.sessions", func(s *v1alpha1.MoQRelaySpec) { s.Limits.Sessions = new(int32(9)) }, live},
	{"limits.sessionsPerIP", func(s *v1alpha1.MoQRelaySpec) { s.Limits.SessionsPerIP = new(int32(9)) }, live},
	{"limits.subscriptionsPerSession", func(s *v1alpha1.MoQRelaySpec) { s.Limits.SubscriptionsPerSession = new(int32(9)) }, live},
	{"limits.announcementsPerSession", func(s *v1alpha1.MoQRelaySpec) { s.Limits.AnnouncementsPerSession = new(int32(9)) }, live},
	{"limits.fetchesPerSession", func(s *v1alpha1.MoQRelaySpec) { s.Limits.FetchesPerSession = new(int32(9)) }, live},
	{"auth.mode", func(s *v1alpha1.MoQRelaySpec) { s.Auth = v1alpha1.AuthSpec{Mode: v1alpha1.AuthNone} }, live + ", " + rolling},
	{"auth.keysSecretName", func(s *v1alpha1.MoQRelaySpec) { s.Auth.KeysSecretName = "others" }, rolling},
	{"auth.publicPrefixes", func(s *v1alpha1.MoQRelaySpec) { s.Auth.PublicPrefixes = []v1alpha1.PathPrefix{"demo", "b"} }, live},
	{"auth.clientCASecretName", func(s *v1alpha1.MoQRelaySpec) { s.Auth.ClientCASecretName = "others" }, rolling},
	{"auth.mtlsPublish", func(s *v1alpha1.MoQRelaySpec) { s.Auth.MTLSPublish = []v1alpha1.PathPattern{"a/*/b"} }, rolling},
	{"auth.mtlsSubscribe", func(s *v1alpha1.MoQRelaySpec) { s.Auth.MTLSSubscribe = []v1alpha1.PathPattern{"**"} }, rolling},
	{"tls.mode", func(s *v1alpha1.MoQRelaySpec) { s.TLS = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned} }, rolling + ", " + peers},
	{"tls.secretName", func(s *v1alpha1.MoQRelaySpec) { s.TLS.SecretName = "other" }, rolling},
	{"cluster.mode", func(s *v1alpha1.MoQRelaySpec) { s.Cluster.Mode = v1alpha1.ClusterStandalone }, rolling + ", " + peers},
	{"cluster.upstreams", func(s *v1alpha1.MoQRelaySpec) {
		s.Cluster.Upstreams = []v1alpha1.UpstreamSpec{{URL: "https://origin.example.com:443/"}}
	}, live},
	{"networkPolicy.state", func(s *v1alpha1.MoQRelaySpec) { s.NetworkPolicy.State = v1alpha1.Disabled }, netpol},
	{"networkPolicy.metricsFrom", func(s *v1alpha1.MoQRelaySpec) {
		s.NetworkPolicy.MetricsFrom = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	}, netpol},
	{"service.type", func(s *v1alpha1.MoQRelaySpec) { s.Service.Type = v1alpha1.ServiceClusterIP }, svc},
	{"service.port", func(s *v1alpha1.MoQRelaySpec) { s.Service.Port = new(int32(8443)) }, svc},
	{"service.nodePort", func(s *v1alpha1.MoQRelaySpec) { s.Service.NodePort = new(int32(30443)) }, svc},
	{"service.hostname", func(s *v1alpha1.MoQRelaySpec) { s.Service.Hostname = "relay.example.com" }, none}, // status.endpoints alone
	{"service.annotations", func(s *v1alpha1.MoQRelaySpec) { s.Service.Annotations = map[string]string{"a": "b"} }, svc},
	{"drain.timeoutSeconds", func(s *v1alpha1.MoQRelaySpec) { s.Drain.TimeoutSeconds = new(int32(5)) }, rolling},
	{"resources.requests", func(s *v1alpha1.MoQRelaySpec) { s.Resources.Requests = list("cpu", "1") }, rolling},
	{"resources.limits", func(s *v1alpha1.MoQRelaySpec) { s.Resources.Limits = list("memory", "2Gi") }, rolling},
	{"pod.labels", func(s *v1alpha1.MoQRelaySpec) { s.Pod.Labels = map[string]string{"a": "b"} }, rolling},
	{"pod.annotations", func(s *v1alpha1.MoQRelaySpec) { s.Pod.Annotations = map[string]string{"a": "b"} }, rolling},
	{"pod.nodeSelector", func(s *v1alpha1.MoQRelaySpec) { s.Pod.NodeSelector = map[string]string{"a": "b"} }, rolling},
	{"pod.tolerations", func(s *v1alpha1.MoQRelaySpec) {
		s.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}, rolling},
	{"log.level", func(s *v1alpha1.MoQRelaySpec) { s.Log.Level = "debug" }, live},
	{"log.format", func(s *v1alpha1.MoQRelaySpec) { s.Log.Format = "text" }, live},
}

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

func list(name corev1.ResourceName, amount string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(amount)}
}

func TestAChangeOfAFieldReachesWhatItsDescriptionSays(t *testing.T) {
	base := admitted(t, "{auth: {mode: JWT, keysSecretName: keys, publicPrefixes: [demo], clientCASecretName: ca, mtlsPublish: [studio/**]}, tls: {secretName: cert}}")
	opts := options(true)
	opts.AutoMode = v1alpha1.SocketBuffersVerify
	before := mustRender(t, base, opts)
	for _, field := range fields {
		relay := base.DeepCopy()
		field.change(&relay.Spec)
		if got := reach(before, mustRender(t, relay, opts)); got != field.reach {
			t.Errorf("a change of %s reaches %s, want %s", field.path, got, field.reach)
		}
	}
}

// reach names what differs.
func reach(a, b *render.Objects) string {
	var parts []string
	if !reflect.DeepEqual(a.LiveConfig, b.LiveConfig) {
		parts = append(parts, live)
	}
	if !reflect.DeepEqual(a.Deployment.Spec.Template, b.Deployment.Spec.Template) {
		parts = append(parts, rolling)
	}
	if !reflect.DeepEqual(a.Service, b.Service) {
		parts = append(parts, svc)
	}
	if !reflect.DeepEqual(a.PeersService, b.PeersService) {
		parts = append(parts, peers)
	}
	if !reflect.DeepEqual(a.NetworkPolicy, b.NetworkPolicy) {
		parts = append(parts, netpol)
	}
	if *a.Deployment.Spec.Replicas != *b.Deployment.Spec.Replicas {
		parts = append(parts, count)
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ", ")
}

// admitted is a MoQRelay of that spec with the API server's defaults.
func admitted(t *testing.T, spec string) *v1alpha1.MoQRelay {
	t.Helper()
	crd, err := apitest.Load(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	relay, err := crd.Create(t.Context(), []byte(
		"apiVersion: moqrelay.io/v1alpha1\nkind: MoQRelay\nmetadata: {name: demo, namespace: tv}\nspec: "+spec+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return relay
}

func TestEveryFieldOfTheSpecHasARowAbove(t *testing.T) {
	rows := map[string]bool{}
	for _, field := range fields {
		rows[field.path] = true
	}
	for _, path := range leaves(reflect.TypeFor[v1alpha1.MoQRelaySpec](), "") {
		if !rows[path] {
			t.Errorf("%s has no row, so nothing shows that it has an effect", path)
		}
		delete(rows, path)
	}
	for path := range rows {
		t.Errorf("%s is no field", path)
	}
}

// leaves lists the fields of a type whose own type is not one of our structs.
func leaves(typ reflect.Type, prefix string) []string {
	var paths []string
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type.Kind() == reflect.Struct && strings.HasSuffix(field.Type.PkgPath(), "/v1alpha1") {
			paths = append(paths, leaves(field.Type, prefix+name+".")...)
			continue
		}
		paths = append(paths, prefix+name)
	}
	return paths
}

func TestTheRelayReadsTheFilesThatAreRendered(t *testing.T) {
	for _, s := range samples(t) {
		objects := mustRender(t, s.relay, options(s.hostAccess))
		source := config.Source{
			File:        written(t, objects.Config.Data, "relay.yaml"),
			LiveFile:    written(t, objects.LiveConfig.Data, "live.yaml"),
			MemoryLimit: s.relay.Spec.Resources.Limits.Memory().Value(),
		}
		loaded, err := config.Load(source)
		if err != nil {
			t.Fatalf("%s: the relay refuses its files: %v", s.name, err)
		}
		if got, want := loaded.Config.Drain.TimeoutSeconds, int(*s.relay.Spec.Drain.TimeoutSeconds); got != want {
			t.Errorf("%s: the relay drains for %d s, want %d", s.name, got, want)
		}
	}
}

// written writes one entry of a ConfigMap to a file, as the kubelet does.
func written(t *testing.T, data map[string]string, key string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), key)
	if err := os.WriteFile(file, []byte(data[key]), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHashesAreOfTheFilesBytesAndTheConfigMapIsNamedByEightDigits(t *testing.T) {
	objects := mustRender(t, minimal(), options(false))
	sum := func(text string) string {
		digest := sha256.Sum256([]byte(text))
		return hex.EncodeToString(digest[:])
	}
	if got, want := objects.ConfigHash, sum(objects.Config.Data["relay.yaml"]); got != want {
		t.Errorf("ConfigHash is %s, want %s", got, want)
	}
	if got, want := objects.LiveConfigHash, sum(objects.LiveConfig.Data["live.yaml"]); got != want {
		t.Errorf("LiveConfigHash is %s, want %s", got, want)
	}
	if got, want := objects.Config.Name, "demo-cfg-"+objects.ConfigHash[:8]; got != want || !*objects.Config.Immutable {
		t.Errorf("the ConfigMap is %s, immutable %v; want %s, true", got, *objects.Config.Immutable, want)
	}
}

func TestTheAPIsDefaultsAreTheRelaysOwn(t *testing.T) {
	withDefaults := mustRender(t, admitted(t, "{auth: {mode: None}, tls: {secretName: cert}}"), options(false))
	without := mustRender(t, minimal(), options(false))
	if a, b := withDefaults.Config.Data["relay.yaml"], without.Config.Data["relay.yaml"]; a != b {
		t.Errorf("with the API server's defaults:\n%s\nwith the relay's own:\n%s", a, b)
	}
	if a, b := withDefaults.LiveConfig.Data["live.yaml"], without.LiveConfig.Data["live.yaml"]; a != b {
		t.Errorf("with the API server's defaults:\n%s\nwith the relay's own:\n%s", a, b)
	}
}

func TestAnUnsetFieldWithoutDefaultRendersNothing(t *testing.T) {
	objects := mustRender(t, admitted(t, "{auth: {mode: None}, tls: {secretName: cert}}"), options(false))
	both := objects.Config.Data["relay.yaml"] + objects.LiveConfig.Data["live.yaml"]
	for _, key := range []string{"protocols", "webTransport", "maxBytes", "goawaySpreadSeconds"} {
		if strings.Contains(both, key) {
			t.Errorf("%s is rendered although nobody set it:\n%s", key, both)
		}
	}
}

func TestNamesOfProtocolsAndDraftsAreThoseThatTheRelayKnows(t *testing.T) {
	relay := admitted(t, "{auth: {mode: None}, tls: {secretName: cert}}")
	for _, name := range append(config.Released(), config.OnRequest()...) {
		relay.Spec.Protocols = append(relay.Spec.Protocols, v1alpha1.Protocol(name))
	}
	mustRender(t, relay, options(false))
	admitted(t, "{auth: {mode: None}, tls: {secretName: cert}, protocols: ["+strings.Join(append(config.Released(), config.OnRequest()...), ", ")+"]}")
}

func TestAutoRaisesOnlyWhereTheNamespaceAllowsIt(t *testing.T) {
	for _, row := range []struct {
		asked      v1alpha1.SocketBuffersMode
		hostAccess bool
		kept       v1alpha1.SocketBuffersMode
		want       v1alpha1.SocketBuffersMode
	}{
		{"Auto", false, "", "Verify"},
		{"Auto", true, "", "RaiseNode"},
		{"Auto", true, "Verify", "Verify"},
		{"Verify", true, "", "Verify"},
		{"Verify", true, "RaiseNode", "Verify"},
		{"RaiseNode", true, "Verify", "RaiseNode"},
	} {
		relay := minimal()
		relay.Spec.SocketBuffers.Mode = row.asked
		objects := mustRender(t, relay, render.Options{RelayImage: "relay", HostAccess: row.hostAccess, AutoMode: row.kept})
		if objects.SocketBuffersMode != row.want {
			t.Errorf("%+v gives %s", row, objects.SocketBuffersMode)
		}
		if got := render.ModeOf(&objects.Deployment.Spec.Template.Spec); got != row.want {
			t.Errorf("%+v: the pod reads as %s", row, got)
		}
		if !strings.Contains(objects.Config.Data["relay.yaml"], "mode: "+string(row.want)) {
			t.Errorf("%+v: the configuration does not say so:\n%s", row, objects.Config.Data["relay.yaml"])
		}
	}
}

func TestAutoLeavesTheNodeAloneWhenThereIsNoUDPSocket(t *testing.T) {
	relay := minimal()
	relay.Spec.Transports.QUIC.State = v1alpha1.Disabled
	if got := mustRender(t, relay, options(true)).SocketBuffersMode; got != v1alpha1.SocketBuffersVerify {
		t.Errorf("without QUIC Auto gives %s, want Verify", got)
	}
}

func TestRaiseNodeWithoutHostAccessIsRefusedWithTheLabelToSet(t *testing.T) {
	relay := minimal()
	relay.Spec.SocketBuffers.Mode = v1alpha1.SocketBuffersRaiseNode
	_, err := render.Render(relay, options(false))
	if _, ok := errors.AsType[*render.HostAccessError](err); !ok || !strings.Contains(err.Error(), `moqrelay.io/host-access=allowed on namespace "tv"`) {
		t.Errorf("got %v, want a HostAccessError that names label and namespace", err)
	}
}

func TestASpecThatTheAPIServerWouldRefuseIsRefusedWithItsField(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.MoQRelaySpec){
		"windows.connection": func(s *v1alpha1.MoQRelaySpec) { s.Windows.Connection = quantity("1Mi") },
		"protocols":          func(s *v1alpha1.MoQRelaySpec) { s.Protocols = []v1alpha1.Protocol{"moq-lite-99"} },
		"auth.mode":          func(s *v1alpha1.MoQRelaySpec) { s.Auth.Mode = "" },
	} {
		relay := minimal()
		change(&relay.Spec)
		_, err := render.Render(relay, options(false))
		if _, ok := errors.AsType[*render.InvalidSpecError](err); !ok || !strings.Contains(err.Error(), field+":") {
			t.Errorf("got %v, want an InvalidSpecError that names %s", err, field)
		}
	}
	if _, err := render.Render(minimal(), render.Options{}); err == nil || !strings.Contains(err.Error(), "image: is required") {
		t.Errorf("without any image: got %v", err)
	}
}

func TestAServiceOfTypeNoneIsNotRendered(t *testing.T) {
	relay := minimal()
	relay.Spec.Service.Type, relay.Spec.Cluster.Mode = v1alpha1.ServiceNone, v1alpha1.ClusterStandalone
	objects := mustRender(t, relay, options(false))
	if objects.Service != nil || bytes.Contains(manifest(t, objects), []byte("kind: Service\n")) {
		t.Errorf("there is a Service: %+v", objects.Service)
	}
}

func TestSecretsAreMountedForThePodAloneWhereTheRelayLooksForThem(t *testing.T) {
	relay := admitted(t, "{auth: {mode: JWT, keysSecretName: keys, clientCASecretName: ca, mtlsPublish: [studio/**]}, tls: {secretName: cert}}")
	objects := mustRender(t, relay, options(false))
	pod := objects.Deployment.Spec.Template.Spec
	want := map[string]string{"cert": "/etc/moq/tls/cert", "keys": "/etc/moq/keys/keys", "ca": "/etc/moq/clients/ca"}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		if !*volume.Secret.Optional {
			t.Errorf("without Secret %s no pod starts", volume.Secret.SecretName)
		}
		for _, container := range append(pod.InitContainers, pod.Containers...) {
			for _, mount := range container.VolumeMounts {
				if mount.Name == volume.Name && (mount.MountPath != want[volume.Secret.SecretName] || !mount.ReadOnly) {
					t.Errorf("Secret %s is mounted at %s, want %s", volume.Secret.SecretName, mount.MountPath, want[volume.Secret.SecretName])
				}
			}
		}
		delete(want, volume.Secret.SecretName)
	}
	if len(want) != 0 {
		t.Errorf("not mounted: %v", want)
	}
	file := objects.Config.Data["relay.yaml"]
	for _, line := range []string{"mode: JWT", `keyDirectory: "/etc/moq/keys/keys"`, `clientCA: "/etc/moq/clients/ca/ca.crt"`, `mtlsPublish: ["studio/**"]`} {
		if !strings.Contains(file, line) {
			t.Errorf("the relay's file lacks %q:\n%s", line, file)
		}
	}
}
