// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/api/v1alpha1/apitest"
)

const crdFile = "../../config/crd/bases/moqrelay.io_moqrelays.yaml"

func loadCRD(t *testing.T) *apitest.CRD {
	t.Helper()
	crd, err := apitest.Load(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

// This covers the estimated cost of every rule, and every default.
func TestTheGeneratedCRDIsAcceptedByTheAPIServersOwnValidation(t *testing.T) {
	if errs := loadCRD(t).Validate(t.Context()); len(errs) != 0 {
		t.Fatalf("the API server would refuse the CRD:\n%s", lines(errs))
	}
}

func TestTheGeneratedCRDIsUnder300KiB(t *testing.T) {
	info, err := os.Stat(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= 300<<10 {
		t.Errorf("the CRD has %d bytes, want fewer than %d", info.Size(), 300<<10)
	}
}

func TestEveryFieldOfTheSpecSaysHowAChangeTakesEffect(t *testing.T) {
	raw, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	fields := describe(&spec, "spec")
	if len(fields) != 53 {
		t.Errorf("the spec has %d fields, want 53", len(fields))
	}
	for path, description := range fields {
		if path == "spec.replicas" { // the one field that neither restarts nor reconfigures a pod
			continue
		}
		if !strings.Contains(description, "Change: ") && !strings.Contains(description, "Change of the name: ") {
			t.Errorf("%s does not say how a change takes effect: %s", path, description)
		}
	}
}

// describe returns the descriptions of the fields that users set, by path.
func describe(schema *apiextensionsv1.JSONSchemaProps, path string) map[string]string {
	fields := map[string]string{}
	if len(schema.Properties) == 0 {
		fields[path] = strings.ReplaceAll(schema.Description, "\n", " ")
	}
	for name, property := range schema.Properties {
		maps.Copy(fields, describe(&property, path+"."+name))
	}
	return fields
}

func lines(errs field.ErrorList) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString(err.Error() + "\n")
	}
	return b.String()
}

// object is a MoQRelay of that name and spec, whose one line of YAML is in flow style.
func object(t *testing.T, name, spec string) map[string]any {
	t.Helper()
	manifest := "apiVersion: moqrelay.io/v1alpha1\nkind: MoQRelay\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	obj, err := apitest.Parse([]byte(manifest))
	if err != nil {
		t.Fatalf("%s: %v", manifest, err)
	}
	return obj
}

// valid is the shortest spec, open to be continued.
const valid = "{auth: {mode: None}, tls: {secretName: cert}"

// selfSigned is the same with a self-signed certificate.
const selfSigned = "{auth: {mode: None}, tls: {mode: SelfSigned}"

// upstreams are n different ones.
func upstreams(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{url: \"https://origin-%d.example.com:443\"}", i))
	}
	return strings.Join(list, ", ")
}

func TestObjectsThatUsersMayWriteAreAccepted(t *testing.T) {
	crd := loadCRD(t)
	for name, spec := range map[string]string{
		"shortest":                         valid + "}",
		"tokens":                           "{auth: {mode: JWT, keysSecretName: keys}, tls: {secretName: cert}}",
		"public paths alone":               "{auth: {mode: JWT, publicPrefixes: [demo, a/b, ..c, /]}, tls: {secretName: cert}}",
		"certificates":                     "{auth: {mode: JWT, clientCASecretName: ca, mtlsPublish: [studio/**, room/*/camera], mtlsSubscribe: [\"**\"]}, tls: {secretName: cert}}",
		"self-signed":                      selfSigned + "}",
		"self-signed, stopped":             selfSigned + ", replicas: 0}",
		"most replicas":                    valid + ", replicas: 64}",
		"every protocol":                   valid + ", protocols: [moq-lite-03, moq-lite-04, moq-lite-05, moq-lite-06, moq-lite-06-wip, moq-lite-07-wip]}",
		"QUIC alone":                       valid + ", transports: {webSocket: {state: Disabled}}}",
		"WebSocket alone":                  valid + ", transports: {quic: {state: Disabled}}}",
		"WebSocket alone, said twice":      valid + ", transports: {quic: {state: Disabled}, webTransport: {state: Disabled}}}",
		"largest packet":                   valid + ", transports: {quic: {initialPacketSize: 1452, idleTimeoutSeconds: 600}}}",
		"origins":                          valid + ", transports: {allowedOrigins: [\"https://example.com\", \"http://localhost:8080\"]}}",
		"null is unset":                    valid + ", windows: null, cache: {maxBytes: null}}",
		"stream exactly half":              valid + ", windows: {stream: 2Mi, connection: 4Mi}}",
		"bytes as integers":                valid + ", windows: {stream: 65536, connection: 131072, pacingCap: 65536}}",
		"largest windows":                  valid + ", windows: {stream: 128Mi, connection: 256Mi, pacingCap: 16Mi, maxIncomingStreams: 65536}}",
		"smallest buffers":                 valid + ", socketBuffers: {receive: 208Ki, send: 212992, mode: Verify, requirement: Required}}",
		"largest buffers":                  valid + ", socketBuffers: {receive: 512Mi, send: 512Mi, mode: RaiseNode}}",
		"cache below the limit":            valid + ", cache: {maxBytes: 1023Mi, maxAgeSeconds: 0}}",
		"large cache without memory limit": valid + ", cache: {maxBytes: 8Gi, maxAgeSeconds: 3600}, resources: {requests: {memory: 1Gi}}}",
		"limits":                           valid + ", limits: {sessions: 1000, sessionsPerIP: 10, subscriptionsPerSession: 0, announcementsPerSession: 1, fetchesPerSession: 0}}",
		"mesh":                             valid + ", replicas: 3, cluster: {mode: Mesh}}",
		"pods by themselves":               valid + ", replicas: 3, cluster: {mode: Standalone}}",
		"self-signed, mesh by default":     selfSigned + ", cluster: {mode: Mesh}}",
		"upstreams":                        valid + ", cluster: {upstreams: [{url: \"https://origin.example.com:443/live?jwt=a.b-c_d\", cost: 10}, {url: \"https://[2001:db8::1]:4443\"}, {url: \"https://192.0.2.1:1/\", cost: 0}]}}",
		"most upstreams":                   valid + ", cluster: {upstreams: [" + upstreams(16) + "]}}",
		"no network policy":                valid + ", networkPolicy: {state: Disabled}}",
		"metrics for others":               valid + ", networkPolicy: {metricsFrom: [{namespaceSelector: {matchLabels: {a: b}}, podSelector: {}}, {podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}}",
		"fixed node port":                  valid + ", service: {type: NodePort, nodePort: 30443, port: 4443}}",
		"hostname":                         valid + ", service: {hostname: relay.example.com, annotations: {example.com/pool: public}}}",
		"no Service":                       valid + ", service: {type: None}}",
		"no drain":                         valid + ", drain: {timeoutSeconds: 0}}",
		"pod":                              valid + ", pod: {labels: {team: video, app.kubernetes.io/part-of: tv}, annotations: {a: b}, nodeSelector: {disk: ssd}, tolerations: [{key: video, operator: Exists, effect: NoSchedule}]}}",
		"log":                              valid + ", log: {level: debug, format: text}}",
		"image":                            valid + ", image: \"example.com/moq-relay:1\", imagePullPolicy: Always, imagePullSecrets: [{name: a}, {name: b}]}",
		"equal requests and limits":        valid + ", resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1000m, memory: 1024Mi}}}",
	} {
		t.Run(name, func(t *testing.T) {
			if errs := crd.Admit(t.Context(), object(t, "demo", spec)); len(errs) != 0 {
				t.Errorf("%s\nrefused:\n%s", spec, lines(errs))
			}
		})
	}
}

func TestMistakesAreRefusedAndTheMessageNamesTheField(t *testing.T) {
	crd := loadCRD(t)
	for _, row := range []struct{ spec, field, text string }{
		{"{tls: {secretName: cert}}", "spec.auth", "Required"},
		{"{auth: {}, tls: {secretName: cert}}", "spec.auth.mode", "Required"},
		{"{auth: {mode: Token}, tls: {secretName: cert}}", "spec.auth.mode", `supported values: "None", "JWT"`},
		{"{auth: {mode: JWT}, tls: {secretName: cert}}", "spec.auth", "lets nobody in without one of"},
		{"{auth: {mode: JWT, mtlsPublish: [a]}, tls: {secretName: cert}}", "spec.auth", "need each other"},
		{"{auth: {mode: JWT, clientCASecretName: ca}, tls: {secretName: cert}}", "spec.auth", "need each other"},
		{"{auth: {mode: None, keysSecretName: keys}, tls: {secretName: cert}}", "spec.auth", "no effect while auth.mode is None"},
		{"{auth: {mode: None, publicPrefixes: [a]}, tls: {secretName: cert}}", "spec.auth", "no effect while auth.mode is None"},
		{"{auth: {mode: JWT, keysSecretName: Keys}, tls: {secretName: cert}}", "spec.auth.keysSecretName", "should match"},
		{"{auth: {mode: JWT, publicPrefixes: []}, tls: {secretName: cert}}", "spec.auth.publicPrefixes", "at least 1 items"},
		{"{auth: {mode: JWT, publicPrefixes: [a, a]}, tls: {secretName: cert}}", "spec.auth.publicPrefixes[1]", "Duplicate"},
		{"{auth: {mode: JWT, publicPrefixes: [/a]}, tls: {secretName: cert}}", "spec.auth.publicPrefixes[0]", "without '/' at its ends"},
		{"{auth: {mode: JWT, publicPrefixes: [a//b]}, tls: {secretName: cert}}", "spec.auth.publicPrefixes[0]", "separated by one '/'"},
		{"{auth: {mode: JWT, publicPrefixes: [a/../b]}, tls: {secretName: cert}}", "spec.auth.publicPrefixes[0]", "none of them '.' or '..'"},
		{"{auth: {mode: JWT, clientCASecretName: ca, mtlsPublish: [a*]}, tls: {secretName: cert}}", "spec.auth.mtlsPublish[0]", "'*' for one segment"},
		{"{auth: {mode: JWT, clientCASecretName: ca, mtlsPublish: [\"**/a/**\"]}, tls: {secretName: cert}}", "spec.auth.mtlsPublish[0]", "'**' for any number, once"},
		{"{auth: {mode: JWT, clientCASecretName: ca, mtlsSubscribe: [a/../b]}, tls: {secretName: cert}}", "spec.auth.mtlsSubscribe[0]", "none is '.' or '..'"},
		{"{auth: {mode: JWT, publicPrefixes: [.]}, tls: {secretName: cert}}", "spec.auth.publicPrefixes[0]", "none of them '.' or '..'"},
		{"{auth: {mode: None}}", "spec.tls.secretName", "is required while tls.mode is Secret"},
		{"{auth: {mode: None}, tls: {mode: Secret}}", "spec.tls.secretName", "is required while tls.mode is Secret"},
		{"{auth: {mode: None}, tls: {mode: Files, secretName: a}}", "spec.tls.mode", `supported values: "Secret", "SelfSigned"`},
		{"{auth: {mode: None}, tls: {secretName: Cert}}", "spec.tls.secretName", "should match"},
		{"{auth: {mode: None}, tls: {secretName: a..b}}", "spec.tls.secretName", "should match"},
		{selfSigned + ", replicas: 2}", "spec.replicas", "at most 1 while tls.mode is SelfSigned"},
		{"{auth: {mode: None}, tls: {mode: SelfSigned, secretName: cert}}", "spec.tls.secretName", "has no effect while tls.mode is SelfSigned"},
		{valid + ", replicas: -1}", "spec.replicas", "greater than or equal to 0"},
		{valid + ", replicas: 65}", "spec.replicas", "less than or equal to 64"},
		{valid + ", replicas: two}", "spec.replicas", "integer"},
		{valid + ", image: \"\"}", "spec.image", "at least 1 chars"},
		{valid + ", imagePullPolicy: Sometimes}", "spec.imagePullPolicy", `supported values: "Always", "IfNotPresent", "Never"`},
		{valid + ", imagePullSecrets: [{name: a}, {name: a}]}", "spec.imagePullSecrets[1]", "Duplicate"},
		{valid + ", protocols: []}", "spec.protocols", "at least 1 items"},
		{valid + ", protocols: [moq-lite-02]}", "spec.protocols[0]", `supported values: "moq-lite-03", "moq-lite-04", "moq-lite-05", "moq-lite-06", "moq-lite-06-wip", "moq-lite-07-wip"`},
		{valid + ", protocols: [moq-lite-06, moq-lite-06]}", "spec.protocols[1]", "Duplicate"},
		{valid + ", transports: {quic: {state: Disabled}, webSocket: {state: Disabled}}}", "spec.transports", "at least one of quic.state and webSocket.state"},
		{valid + ", transports: {quic: {state: Disabled}, webTransport: {state: Enabled}}}", "spec.transports.webTransport.state", "needs transports.quic.state Enabled"},
		{valid + ", transports: {quic: {state: true}}}", "spec.transports.quic.state", "string"},
		{valid + ", transports: {quic: {initialPacketSize: 1199}}}", "spec.transports.quic.initialPacketSize", "greater than or equal to 1200"},
		{valid + ", transports: {quic: {initialPacketSize: 1453}}}", "spec.transports.quic.initialPacketSize", "less than or equal to 1452"},
		{valid + ", transports: {quic: {idleTimeoutSeconds: 4}}}", "spec.transports.quic.idleTimeoutSeconds", "greater than or equal to 5"},
		{valid + ", transports: {qmuxDrafts: [\"03\"]}}", "spec.transports.qmuxDrafts[0]", `supported values: "00", "01", "02"`},
		{valid + ", transports: {allowedOrigins: [example.com]}}", "spec.transports.allowedOrigins[0]", "should match"},
		{valid + ", transports: {allowedOrigins: [\"https://example.com/path\"]}}", "spec.transports.allowedOrigins[0]", "should match"},
		{valid + ", windows: {stream: 63Ki}}", "spec.windows.stream", "at least 64Ki"},
		{valid + ", windows: {stream: 3Mi}}", "spec.windows.connection", "at least twice windows.stream"},
		{valid + ", windows: {connection: 1Mi}}", "spec.windows.connection", "at least twice windows.stream"},
		{valid + ", windows: {connection: 257Mi}}", "spec.windows.connection", "at most 256Mi"},
		{valid + ", windows: {pacingCap: 17Mi}}", "spec.windows.pacingCap", "64Ki to 16Mi"},
		{valid + ", windows: {stream: 1 MB}}", "spec.windows.stream", "should match"},
		{valid + ", windows: {maxIncomingStreams: 15}}", "spec.windows.maxIncomingStreams", "greater than or equal to 16"},
		{valid + ", socketBuffers: {receive: 207Ki}}", "spec.socketBuffers.receive", "208Ki to 512Mi"},
		{valid + ", socketBuffers: {send: 513Mi}}", "spec.socketBuffers.send", "208Ki to 512Mi"},
		{valid + ", socketBuffers: {mode: ForceSocket}}", "spec.socketBuffers.mode", `supported values: "Auto", "RaiseNode", "Verify"`},
		{valid + ", socketBuffers: {requirement: Must}}", "spec.socketBuffers.requirement", `supported values: "Preferred", "Required"`},
		{valid + ", cache: {maxBytes: 1Gi}}", "spec.cache.maxBytes", "less than resources.limits.memory"},
		{valid + ", cache: {maxBytes: 1Ki}}", "spec.cache.maxBytes", "1Mi to 1Ti"},
		{valid + ", cache: {maxBytes: 50%}}", "spec.cache.maxBytes", "should match"},
		{valid + ", cache: {maxAgeSeconds: 3601}}", "spec.cache.maxAgeSeconds", "less than or equal to 3600"},
		{valid + ", limits: {sessions: -1}}", "spec.limits.sessions", "greater than or equal to 0"},
		{valid + ", limits: {fetchesPerSession: -1}}", "spec.limits.fetchesPerSession", "greater than or equal to 0"},
		{valid + ", limits: {publishersPerSession: 1}}", "spec.limits.publishersPerSession", "unknown field"},
		{valid + ", cluster: {mode: Ring}}", "spec.cluster.mode", `supported values: "Mesh", "Standalone"`},
		{valid + ", cluster: {upstreams: [{cost: 1}]}}", "spec.cluster.upstreams[0].url", "Required"},
		{valid + ", cluster: {upstreams: [{url: \"http://origin.example.com:443\"}]}}", "spec.cluster.upstreams[0].url", "should match"},
		{valid + ", cluster: {upstreams: [{url: \"https://origin.example.com\"}]}}", "spec.cluster.upstreams[0].url", "should match"},
		{valid + ", cluster: {upstreams: [{url: \"https://origin.example.com:0\"}]}}", "spec.cluster.upstreams[0].url", "should match"},
		{valid + ", cluster: {upstreams: [{url: \"https://me@origin.example.com:443\"}]}}", "spec.cluster.upstreams[0].url", "should match"},
		{valid + ", cluster: {upstreams: [{url: \"https://origin.example.com:443/#a\"}]}}", "spec.cluster.upstreams[0].url", "should match"},
		{valid + ", cluster: {upstreams: [{url: \"https://o:1\"}, {url: \"https://o:1\", cost: 2}]}}", "spec.cluster.upstreams[1]", "Duplicate"},
		{valid + ", cluster: {upstreams: [{url: \"https://o:1\", cost: -1}]}}", "spec.cluster.upstreams[0].cost", "greater than or equal to 0"},
		{valid + ", cluster: {upstreams: [{url: \"https://o:1\", cost: 65536}]}}", "spec.cluster.upstreams[0].cost", "less than or equal to 65535"},
		{valid + ", cluster: {upstreams: [" + upstreams(17) + "]}}", "spec.cluster.upstreams", "must have at most 16 items"},
		{valid + ", networkPolicy: {state: true}}", "spec.networkPolicy.state", "string"},
		{valid + ", networkPolicy: {metricsFrom: [{}]}}", "spec.networkPolicy.metricsFrom", "either ipBlock, or one or both of"},
		{valid + ", networkPolicy: {metricsFrom: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}}", "spec.networkPolicy.metricsFrom", "either ipBlock, or one or both of"},
		{valid + ", networkPolicy: {metricsFrom: [{ipBlock: {}}]}}", "spec.networkPolicy.metricsFrom[0].ipBlock.cidr", "Required"},
		{valid + ", service: {type: ExternalName}}", "spec.service.type", `supported values: "LoadBalancer", "NodePort", "ClusterIP", "None"`},
		{valid + ", service: {port: 0}}", "spec.service.port", "greater than or equal to 1"},
		{valid + ", service: {type: ClusterIP, nodePort: 30443}}", "spec.service.nodePort", "only while service.type is NodePort or LoadBalancer"},
		{valid + ", service: {hostname: \"https://relay.example.com\"}}", "spec.service.hostname", "should match"},
		{valid + ", drain: {timeoutSeconds: 86401}}", "spec.drain.timeoutSeconds", "less than or equal to 86400"},
		{valid + ", drain: {timeoutSeconds: 5s}}", "spec.drain.timeoutSeconds", "integer"},
		{valid + ", resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}", "spec.resources", "resources.requests.memory must not exceed"},
		{valid + ", resources: {requests: {cpu: 2}, limits: {cpu: 1}}}", "spec.resources", "resources.requests.cpu must not exceed"},
		{valid + ", resources: {claims: [{name: a}]}}", "spec.resources.claims", "unknown field"},
		{valid + ", pod: {labels: {app.kubernetes.io/name: mine}}}", "spec.pod.labels", "which the operator sets"},
		{valid + ", pod: {annotations: {moqrelay.io/x: z}}}", "spec.pod.annotations", "which the operator sets"},
		{valid + ", log: {level: trace}}", "spec.log.level", `supported values: "debug", "info", "warn", "error"`},
		{valid + ", log: {format: xml}}", "spec.log.format", `supported values: "json", "text"`},
		{valid + ", window: {stream: 1Mi}}", "spec.window", "unknown field"},
	} {
		t.Run(row.spec, func(t *testing.T) {
			errs := crd.Admit(t.Context(), object(t, "demo", row.spec))
			for _, err := range errs {
				if err.Field == row.field && strings.Contains(err.Error(), row.text) {
					return
				}
			}
			t.Errorf("want %q at %s, got:\n%s", row.text, row.field, lines(errs))
		})
	}
}

func TestNamesThatNoServiceCouldBearAreRefused(t *testing.T) {
	crd := loadCRD(t)
	longest := strings.Repeat("a", 45)
	for name, text := range map[string]string{
		longest:       "",
		"a":           "",
		"relay-1":     "",
		longest + "a": "at most 45 characters",
		"1relay":      "must start with a letter",
		"relay.tv":    "must start with a letter",
		"relay-":      "must start with a letter",
	} {
		errs := crd.Admit(t.Context(), object(t, name, valid+"}"))
		if text == "" && len(errs) > 0 {
			t.Errorf("%s is refused:\n%s", name, lines(errs))
		}
		if text != "" && (len(errs) != 1 || !strings.Contains(errs[0].Detail, "metadata.name must") || !strings.Contains(errs[0].Detail, text)) {
			t.Errorf("%s: want one fault with %q, got:\n%s", name, text, lines(errs))
		}
	}
}

func TestTheShortestObjectGetsEveryDefault(t *testing.T) {
	relay, err := loadCRD(t).Create(t.Context(), []byte(
		"apiVersion: moqrelay.io/v1alpha1\nkind: MoQRelay\nmetadata: {name: demo}\nspec: "+valid+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(relay.Spec)
	if err != nil {
		t.Fatal(err)
	}
	const want = `auth:
  mode: None
cache:
  maxAgeSeconds: 30
cluster:
  mode: Mesh
drain:
  timeoutSeconds: 300
imagePullPolicy: IfNotPresent
limits:
  announcementsPerSession: 1024
  fetchesPerSession: 64
  sessions: 0
  sessionsPerIP: 0
  subscriptionsPerSession: 1024
log:
  format: json
  level: info
networkPolicy:
  state: Enabled
replicas: 1
resources:
  limits:
    memory: 1Gi
  requests:
    cpu: 250m
    memory: 256Mi
service:
  port: 443
  type: LoadBalancer
socketBuffers:
  mode: Auto
  receive: 4Mi
  requirement: Preferred
  send: 4Mi
tls:
  mode: Secret
  secretName: cert
transports:
  allowedOrigins:
  - '*'
  qmuxDrafts:
  - "00"
  - "01"
  - "02"
  quic:
    idleTimeoutSeconds: 30
    initialPacketSize: 1200
    state: Enabled
  webSocket:
    state: Enabled
windows:
  connection: 4Mi
  maxIncomingStreams: 1024
  pacingCap: 16Mi
  stream: 1Mi
`
	if string(got) != want {
		t.Errorf("defaulted spec:\n%s\nwant:\n%s", got, want)
	}
	if relay.Spec.Auth.Mode != v1alpha1.AuthNone {
		t.Errorf("auth.mode is %q, want %q", relay.Spec.Auth.Mode, v1alpha1.AuthNone)
	}
}
