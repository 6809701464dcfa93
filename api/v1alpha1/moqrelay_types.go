// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MoQRelay is a group of Media-over-QUIC relay pods behind one address, with
// everything that they need: Deployment, Service, configuration, socket buffers
// on their nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=moqr,categories=moq
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Draining",type=integer,JSONPath=`.status.drainingReplicas`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.endpoints[0].url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Buffers",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="SocketBuffersReady")].reason`
// +kubebuilder:printcolumn:name="Cert-Expires",type=string,priority=1,JSONPath=`.status.certificates[0].notAfter`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 45",message="metadata.name must be at most 45 characters, because the names of the objects made from it add a suffix"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-', because a Service gets the same name"
type MoQRelay struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user wants.
	// +required
	Spec MoQRelaySpec `json:"spec"`

	// status is what the operator saw. Only the operator writes it.
	// +optional
	Status MoQRelayStatus `json:"status,omitzero"`
}

// MoQRelayList is a list of MoQRelays.
//
// +kubebuilder:object:root=true
type MoQRelayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MoQRelay `json:"items"`
}

// State switches a part on or off.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type State string

// The values of State.
const (
	Enabled  State = "Enabled"
	Disabled State = "Disabled"
)

// MoQRelaySpec is what a user asks for. How a change takes effect is written with
// each field. Live: in force within about 90 s, no pod restarts. Rolling: new pods
// replace the old ones, which drain first. Service: only the Service changes.
//
// +kubebuilder:validation:XValidation:rule="self.tls.mode != 'Secret' || has(self.tls.secretName)",fieldPath=".tls.secretName",reason=FieldValueRequired,message="tls.secretName is required while tls.mode is Secret (the default): name a Secret of type kubernetes.io/tls, or set tls.mode SelfSigned for development"
// +kubebuilder:validation:XValidation:rule="self.tls.mode != 'SelfSigned' || !has(self.tls.secretName)",fieldPath=".tls.secretName",reason=FieldValueForbidden,message="tls.secretName has no effect while tls.mode is SelfSigned: remove one of the two"
// +kubebuilder:validation:XValidation:rule="self.tls.mode != 'SelfSigned' || self.replicas <= 1",fieldPath=".replicas",message="replicas must be at most 1 while tls.mode is SelfSigned, because every pod would make a certificate of its own: use tls.mode Secret to scale"
// +kubebuilder:validation:XValidation:rule="self.transports.quic.state == 'Enabled' || self.transports.webSocket.state == 'Enabled'",fieldPath=".transports",message="transports: at least one of quic.state and webSocket.state must be Enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.transports.webTransport.state) || self.transports.webTransport.state == 'Disabled' || self.transports.quic.state == 'Enabled'",fieldPath=".transports.webTransport.state",message="transports.webTransport.state Enabled needs transports.quic.state Enabled, because both share one UDP socket"
// +kubebuilder:validation:XValidation:rule="quantity(string(self.windows.connection)).compareTo(quantity(string(self.windows.stream)).add(quantity(string(self.windows.stream)))) >= 0",fieldPath=".windows.connection",message="windows.connection must be at least twice windows.stream, or one paused stream would block the others"
// +kubebuilder:validation:XValidation:rule="!has(self.cache.maxBytes) || !has(self.resources.limits) || !('memory' in self.resources.limits) || quantity(string(self.cache.maxBytes)).isLessThan(quantity(string(self.resources.limits['memory'])))",fieldPath=".cache.maxBytes",message="cache.maxBytes must be less than resources.limits.memory"
// +kubebuilder:validation:XValidation:rule="!has(self.service.nodePort) || self.service.type == 'NodePort' || self.service.type == 'LoadBalancer'",fieldPath=".service.nodePort",reason=FieldValueForbidden,message="service.nodePort has an effect only while service.type is NodePort or LoadBalancer"
type MoQRelaySpec struct {
	// replicas is the number of relay pods, 0 to 64, default 1. With 0 no pod runs and
	// everything else stays. More than 1 needs tls.mode Secret. A change starts or
	// drains pods and restarts none.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Replicas *int32 `json:"replicas,omitempty"`

	// auth says who may publish and watch. Required, because no default is right for
	// everyone.
	// +required
	Auth AuthSpec `json:"auth"`

	// image is the relay's container image, 1 to 512 characters. Unset: the one that
	// the operator was started with. Change: rolling.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// imagePullPolicy is Always, IfNotPresent or Never; default IfNotPresent. Change:
	// rolling.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets names Secrets of this namespace for pulling the image, at most
	// 8. Change: rolling.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// protocols are the protocol versions that the relay offers, 1 to 16 of them.
	// Unset: every released version that the image speaks. moq-lite-06-wip and
	// moq-lite-07-wip are spoken only when named here. Change: rolling.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Protocols []Protocol `json:"protocols,omitempty"`

	// transports are the ways in which clients connect.
	// +optional
	// +kubebuilder:default={}
	Transports TransportsSpec `json:"transports,omitzero"`

	// windows bound the bytes that a peer may send before the relay has room.
	// +optional
	// +kubebuilder:default={}
	Windows WindowsSpec `json:"windows,omitzero"`

	// socketBuffers are the kernel's buffers of the relay's UDP socket.
	// +optional
	// +kubebuilder:default={}
	SocketBuffers SocketBuffersSpec `json:"socketBuffers,omitzero"`

	// cache holds recent groups for viewers that come late.
	// +optional
	// +kubebuilder:default={}
	Cache CacheSpec `json:"cache,omitzero"`

	// limits bound what clients may take.
	// +optional
	// +kubebuilder:default={}
	Limits LimitsSpec `json:"limits,omitzero"`

	// tls is the certificate that clients see.
	// +optional
	// +kubebuilder:default={}
	TLS TLSSpec `json:"tls,omitzero"`

	// cluster is about other relays: those of the other pods, and relays elsewhere.
	// +optional
	// +kubebuilder:default={}
	Cluster ClusterSpec `json:"cluster,omitzero"`

	// service is the way from clients to the pods.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitzero"`

	// networkPolicy says who may reach the pods.
	// +optional
	// +kubebuilder:default={}
	NetworkPolicy NetworkPolicySpec `json:"networkPolicy,omitzero"`

	// drain is the goodbye of a pod that is told to stop.
	// +optional
	// +kubebuilder:default={}
	Drain DrainSpec `json:"drain,omitzero"`

	// resources of each relay container. Default: requests 250m CPU and 256Mi memory,
	// limit 1Gi memory, no CPU limit; a value given here replaces the whole default.
	// The Go runtime keeps itself under 90 % of the memory limit. Full socket buffers
	// count as the pod's memory: up to 2 x (receive + send). Change: rolling.
	// +optional
	// +kubebuilder:default={requests:{cpu:"250m",memory:"256Mi"},limits:{memory:"1Gi"}}
	Resources ResourcesSpec `json:"resources,omitzero"`

	// pod adds to the relay pods' metadata and says where they may run.
	// +optional
	Pod PodSpec `json:"pod,omitzero"`

	// log is what the relay writes to its standard error.
	// +optional
	// +kubebuilder:default={}
	Log LogSpec `json:"log,omitzero"`
}

// Protocol is a protocol version by its name in files.
//
// +kubebuilder:validation:Enum=moq-lite-03;moq-lite-04;moq-lite-05;moq-lite-06;moq-lite-06-wip;moq-lite-07-wip
type Protocol string

// QMuxDraft is a draft of QMux, the multiplexing used over WebSocket.
//
// +kubebuilder:validation:Enum="00";"01";"02"
type QMuxDraft string

// AllowedOrigin is a browser origin (https://example.com) or * for all.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:Pattern=`^(\*|[a-z][a-z0-9+.-]*://[^/?#@,*\s]+)$`
type AllowedOrigin string

// TransportsSpec are the ways in which clients connect. At least one of quic and
// webSocket is Enabled.
type TransportsSpec struct {
	// quic is QUIC on UDP, alone and as the carrier of WebTransport.
	// +optional
	// +kubebuilder:default={}
	QUIC QUICSpec `json:"quic,omitzero"`

	// webTransport is HTTP/3 WebTransport, for browsers, on quic's UDP socket.
	// +optional
	// +kubebuilder:default={}
	WebTransport WebTransportSpec `json:"webTransport,omitzero"`

	// webSocket is QMux over WebSocket, for clients whose network blocks UDP.
	// +optional
	// +kubebuilder:default={}
	WebSocket WebSocketSpec `json:"webSocket,omitzero"`

	// qmuxDrafts are the drafts of QMux that the relay offers over WebSocket, at most
	// 8. Default: 00, 01 and 02. Change: rolling.
	// +optional
	// +listType=set
	// +kubebuilder:default={"00","01","02"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	QMuxDrafts []QMuxDraft `json:"qmuxDrafts,omitempty"`

	// allowedOrigins are the browser origins that may open WebTransport and WebSocket
	// sessions, scheme://host[:port] or * for all, 1 to 64. Clients that send no origin are
	// not asked. Default: *. Change: rolling.
	// +optional
	// +listType=set
	// +kubebuilder:default={"*"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AllowedOrigins []AllowedOrigin `json:"allowedOrigins,omitempty"`
}

// QUICSpec configures QUIC.
type QUICSpec struct {
	// state is Enabled or Disabled; default Enabled. Disabled closes UDP, and with it
	// WebTransport. Change: rolling.
	// +optional
	// +kubebuilder:default=Enabled
	State State `json:"state,omitempty"`

	// initialPacketSize is the UDP payload in bytes of the first packets, before a
	// larger size is probed: 1200 to 1452, default 1200, which every path must carry.
	// Change: rolling.
	// +optional
	// +kubebuilder:default=1200
	// +kubebuilder:validation:Minimum=1200
	// +kubebuilder:validation:Maximum=1452
	InitialPacketSize *int32 `json:"initialPacketSize,omitempty"`

	// idleTimeoutSeconds ends a session that has been silent for so long: 5 to 600
	// seconds, default 30. Change: rolling.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=600
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`
}

// WebTransportSpec configures WebTransport.
type WebTransportSpec struct {
	// state is Enabled or Disabled. Unset: as transports.quic.state. Enabled needs quic
	// Enabled. Change: rolling.
	// +optional
	State State `json:"state,omitempty"`
}

// WebSocketSpec configures QMux over WebSocket.
type WebSocketSpec struct {
	// state is Enabled or Disabled; default Enabled. Change: rolling.
	// +optional
	// +kubebuilder:default=Enabled
	State State `json:"state,omitempty"`
}

// WindowsSpec bounds the bytes in flight from a peer. A publisher runs ahead of
// its fastest viewer by at most min(stream, connection, pacingCap).
type WindowsSpec struct {
	// stream is how far one stream may run ahead of its reader, in bytes: 64Ki to
	// 128Mi, default 1Mi. Change: rolling.
	// +optional
	// +kubebuilder:default="1Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0",message="windows.stream must be at least 64Ki"
	Stream *resource.Quantity `json:"stream,omitempty"`

	// connection is the same for all streams of a connection together, in bytes: at
	// least twice stream, at most 256Mi, default 4Mi. Change: rolling.
	// +optional
	// +kubebuilder:default="4Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('256Mi')) <= 0",message="windows.connection must be at most 256Mi"
	Connection *resource.Quantity `json:"connection,omitempty"`

	// pacingCap bounds how far a publisher may run ahead of the fastest viewer whatever
	// the windows are, in bytes: 64Ki to 16Mi, default 16Mi. Change: live.
	// +optional
	// +kubebuilder:default="16Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('64Ki')) >= 0 && quantity(string(self)).compareTo(quantity('16Mi')) <= 0",message="windows.pacingCap must be 64Ki to 16Mi"
	PacingCap *resource.Quantity `json:"pacingCap,omitempty"`

	// maxIncomingStreams is how many streams a peer may have open at once, in each
	// direction: 16 to 65536, default 1024. Change: rolling.
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=65536
	MaxIncomingStreams *int32 `json:"maxIncomingStreams,omitempty"`
}

// SocketBuffersMode says how the sizes of the socket buffers are reached.
//
// +kubebuilder:validation:Enum=Auto;RaiseNode;Verify
type SocketBuffersMode string

// The values of SocketBuffersMode.
const (
	// SocketBuffersAuto is RaiseNode where the namespace may touch the host, else Verify.
	SocketBuffersAuto SocketBuffersMode = "Auto"
	// SocketBuffersRaiseNode raises the node's limits from a privileged init container.
	SocketBuffersRaiseNode SocketBuffersMode = "RaiseNode"
	// SocketBuffersVerify asks, reads back and reports; nothing on the node changes.
	SocketBuffersVerify SocketBuffersMode = "Verify"
)

// SocketBuffersRequirement says what a grant below the request means.
//
// +kubebuilder:validation:Enum=Preferred;Required
type SocketBuffersRequirement string

// The values of SocketBuffersRequirement.
const (
	// SocketBuffersPreferred starts the relay anyway; the condition SocketBuffersReady tells.
	SocketBuffersPreferred SocketBuffersRequirement = "Preferred"
	// SocketBuffersRequired keeps the relay from starting.
	SocketBuffersRequired SocketBuffersRequirement = "Required"
)

// SocketBuffersSpec configures the kernel's buffers of the relay's UDP socket.
// Viewers acknowledge in bursts: as a rule, viewers x 1,664 bytes should fit in
// twice the receive size.
type SocketBuffersSpec struct {
	// receive is the size asked for receiving, in bytes: 208Ki to 512Mi, default 4Mi.
	// The kernel reports twice the grant. Change: rolling.
	// +optional
	// +kubebuilder:default="4Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('208Ki')) >= 0 && quantity(string(self)).compareTo(quantity('512Mi')) <= 0",message="socketBuffers.receive must be 208Ki to 512Mi"
	Receive *resource.Quantity `json:"receive,omitempty"`

	// send is the size asked for sending, in bytes: 208Ki to 512Mi, default 4Mi.
	// Change: rolling.
	// +optional
	// +kubebuilder:default="4Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('208Ki')) >= 0 && quantity(string(self)).compareTo(quantity('512Mi')) <= 0",message="socketBuffers.send must be 208Ki to 512Mi"
	Send *resource.Quantity `json:"send,omitempty"`

	// mode says how the sizes are reached; default Auto. RaiseNode: an init container
	// raises net.core.rmem_max and wmem_max on the pod's node, never lowers them, at
	// most to the operator's --max-node-buffer. That one container is privileged and
	// sees the node's /proc, so the pod needs Pod Security level privileged and the
	// namespace the label moqrelay.io/host-access=allowed; the relay container stays
	// restricted. Verify: nothing on the node changes, the grant is read back and
	// reported; the pod passes Pod Security level restricted. Auto: RaiseNode where the
	// namespace has the label, else Verify; status.socketBuffers.mode has the choice.
	// Change: rolling.
	// +optional
	// +kubebuilder:default=Auto
	Mode SocketBuffersMode `json:"mode,omitempty"`

	// requirement is Preferred (default: a smaller grant is reported and the relay
	// starts) or Required (the relay does not start). Change: rolling.
	// +optional
	// +kubebuilder:default=Preferred
	Requirement SocketBuffersRequirement `json:"requirement,omitempty"`
}

// CacheSpec bounds the recent groups that a relay keeps.
type CacheSpec struct {
	// maxBytes is the size of the cache, in bytes: 1Mi to 1Ti, and less than
	// resources.limits.memory. Unset: half of the memory limit. Change: live.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="cache.maxBytes must be 1Mi to 1Ti"
	MaxBytes *resource.Quantity `json:"maxBytes,omitempty"`

	// maxAgeSeconds is how long a finished group is kept: 0 to 3600 seconds, default
	// 30. Change: live.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// LimitsSpec bounds what clients may take. All are per pod.
type LimitsSpec struct {
	// sessions is how many sessions one pod holds; 0 (default) is no limit. New
	// sessions beyond it are refused. Change: live.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	Sessions *int32 `json:"sessions,omitempty"`

	// sessionsPerIP is how many of them may come from one address; 0 (default) is no
	// limit. Behind a proxy that hides addresses leave it 0. Change: live.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	SessionsPerIP *int32 `json:"sessionsPerIP,omitempty"`

	// subscriptionsPerSession is how many tracks one session may watch at once; default
	// 1024, 0 is no limit. Further requests are refused. Change: live, for new sessions.
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=0
	SubscriptionsPerSession *int32 `json:"subscriptionsPerSession,omitempty"`

	// announcementsPerSession is how many broadcasts one session may announce at once;
	// default 1024, 0 is no limit. Further ones are refused. Change: live, for new
	// sessions.
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=0
	AnnouncementsPerSession *int32 `json:"announcementsPerSession,omitempty"`

	// fetchesPerSession is how many groups one session may fetch at once; default 64, 0
	// is no limit. Further requests wait their turn. Change: live, for new sessions.
	// +optional
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=0
	FetchesPerSession *int32 `json:"fetchesPerSession,omitempty"`
}

// TLSMode says where the certificate comes from.
//
// +kubebuilder:validation:Enum=Secret;SelfSigned
type TLSMode string

// The values of TLSMode.
const (
	// TLSSecret mounts a Secret of type kubernetes.io/tls.
	TLSSecret TLSMode = "Secret"
	// TLSSelfSigned lets the relay make a certificate of 13 days, for development.
	TLSSelfSigned TLSMode = "SelfSigned"
)

// TLSSpec is the certificate that clients see.
type TLSSpec struct {
	// mode is Secret (default) or SelfSigned. SelfSigned is for development: the relay
	// makes a certificate of 13 days, which browsers accept by its fingerprint, answers
	// plain HTTP and WebSocket beside TLS, and cannot have more than one replica.
	// Change: rolling.
	// +optional
	// +kubebuilder:default=Secret
	Mode TLSMode `json:"mode,omitempty"`

	// secretName is a Secret of this namespace with tls.crt and tls.key; required while
	// mode is Secret, at most 253 characters. Pods wait until it exists. New content is
	// used by the next handshake without a restart. Change of the name: rolling.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName,omitempty"`
}

// ServiceType says how clients outside the cluster reach the pods.
//
// +kubebuilder:validation:Enum=LoadBalancer;NodePort;ClusterIP;None
type ServiceType string

// The values of ServiceType. ServiceNone makes no Service: clients reach the pods'
// own addresses on port 4443.
const (
	ServiceLoadBalancer ServiceType = "LoadBalancer"
	ServiceNodePort     ServiceType = "NodePort"
	ServiceClusterIP    ServiceType = "ClusterIP"
	ServiceNone         ServiceType = "None"
)

// ServiceSpec is the Service for clients. It has the relay's name, and the same
// port number on UDP and TCP.
type ServiceSpec struct {
	// type is LoadBalancer (default), NodePort, ClusterIP or None (no Service; clients
	// reach the pods on port 4443). Change: service.
	// +optional
	// +kubebuilder:default=LoadBalancer
	Type ServiceType `json:"type,omitempty"`

	// port is the Service's port, on UDP and TCP: 1 to 65535, default 443. Change:
	// service.
	// +optional
	// +kubebuilder:default=443
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// nodePort is the port on every node, UDP and TCP, while type is NodePort or
	// LoadBalancer: 1 to 65535, and in the range that the cluster sets aside (usually
	// 30000 to 32767). Unset: the cluster chooses. Change: service.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort *int32 `json:"nodePort,omitempty"`

	// hostname is the name that clients use, at most 253 characters: status.endpoints
	// shows it in place of an address. Nothing is written to any DNS. Change: none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostname string `json:"hostname,omitempty"`

	// annotations of the Service, at most 32, for the balancer's controller. Change:
	// service.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DrainSpec is the goodbye of a pod that is told to stop.
type DrainSpec struct {
	// timeoutSeconds is how long a stopping pod lets its sessions move away before it
	// closes them: 0 to 86400 seconds, default 300. It stops at once when none is left.
	// Short values suit clients that ignore the relay's GOAWAY. The pod's grace period
	// is this plus 15. Change: rolling.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// ResourcesSpec is what a relay container asks of its node and may take at most.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('memory' in self.requests) || !('memory' in self.limits) || quantity(string(self.requests['memory'])).compareTo(quantity(string(self.limits['memory']))) <= 0",message="resources.requests.memory must not exceed resources.limits.memory"
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || !('cpu' in self.requests) || !('cpu' in self.limits) || quantity(string(self.requests['cpu'])).compareTo(quantity(string(self.limits['cpu']))) <= 0",message="resources.requests.cpu must not exceed resources.limits.cpu"
type ResourcesSpec struct {
	// requests is what the scheduler sets aside, at most 8 kinds. Change: rolling.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// limits is what the container cannot exceed, at most 8 kinds. Change: rolling.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// PodSpec adds to the relay pods' metadata and says where they may run.
type PodSpec struct {
	// labels of the pods, at most 32, besides the operator's own
	// (app.kubernetes.io/name, instance, managed-by and component, and all of
	// moqrelay.io/). Change: rolling.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('moqrelay.io/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by', 'app.kubernetes.io/component']))",message="pod.labels must not set app.kubernetes.io/name, instance, managed-by or component, nor anything of moqrelay.io/, which the operator sets"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the pods, at most 32, none of moqrelay.io/. Change: rolling.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('moqrelay.io/'))",message="pod.annotations must not set anything of moqrelay.io/, which the operator sets"
	Annotations map[string]string `json:"annotations,omitempty"`

	// nodeSelector is the labels that a node must have, at most 32. Change: rolling.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the taints that the pods accept, at most 32. Change: rolling.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// LogSpec is what the relay writes to its standard error.
type LogSpec struct {
	// level is debug, info (default), warn or error. Change: live.
	// +optional
	// +kubebuilder:default=info
	// +kubebuilder:validation:Enum=debug;info;warn;error
	Level string `json:"level,omitempty"`

	// format is json (default) or text. Change: live.
	// +optional
	// +kubebuilder:default=json
	// +kubebuilder:validation:Enum=json;text
	Format string `json:"format,omitempty"`
}

// MoQRelayStatus is what the operator saw at its last completed pass.
type MoQRelayStatus struct {
	// observedGeneration is the generation of the spec that this status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of pods that are not draining.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is how many of them run the newest template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// drainingReplicas is the number of pods that were told to stop and still run.
	// +optional
	DrainingReplicas int32 `json:"drainingReplicas"`

	// selector finds the pods; the scale subresource needs it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// image is the relay image that is wanted, after defaulting.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// configHash is the SHA-256 of the configuration file that pods should report, in hex.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// liveConfigHash is the same for the file that is reloaded without a restart.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LiveConfigHash string `json:"liveConfigHash,omitempty"`

	// endpoints are addresses ready to paste into a client, at most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Endpoints []Endpoint `json:"endpoints,omitempty"`

	// socketBuffers is what nodes granted, as the pods' preflight reports tell.
	// +optional
	SocketBuffers *SocketBuffersStatus `json:"socketBuffers,omitempty"`

	// certificates are those that the pods loaded, at most 17.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=17
	Certificates []CertificateStatus `json:"certificates,omitempty"`

	// peers says for each pod of a mesh how many of the others it has a session with, as
	// the pods tell; at most 64.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=64
	Peers []PeersStatus `json:"peers,omitempty"`

	// operatorVersion is the version of the operator that wrote this status.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	OperatorVersion string `json:"operatorVersion,omitempty"`

	// conditions are Ready, which sums up, Reconciled, Available, Progressing,
	// Degraded, SocketBuffersReady, CertificateReady, AddressReady, DataPlaneHealthy and
	// ConfigurationApplied.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Endpoint is one address for one kind of client.
type Endpoint struct {
	// transport is QUIC, WebTransport or WebSocket.
	// +required
	Transport EndpointTransport `json:"transport"`

	// url is moqt://HOST:PORT for QUIC, else https://HOST:PORT, or http://HOST:PORT
	// with a self-signed certificate, whose fingerprint clients then fetch.
	// +required
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url"`
}

// EndpointTransport is the transport of an endpoint.
//
// +kubebuilder:validation:Enum=QUIC;WebTransport;WebSocket
type EndpointTransport string

// The values of EndpointTransport.
const (
	EndpointQUIC         EndpointTransport = "QUIC"
	EndpointWebTransport EndpointTransport = "WebTransport"
	EndpointWebSocket    EndpointTransport = "WebSocket"
)

// SocketBuffersStatus is what nodes granted.
type SocketBuffersStatus struct {
	// mode is the one in use: RaiseNode or Verify, never Auto.
	// +optional
	Mode SocketBuffersMode `json:"mode,omitempty"`

	// receive is the receive buffer.
	// +optional
	Receive SocketBufferStatus `json:"receive,omitzero"`

	// send is the send buffer.
	// +optional
	Send SocketBufferStatus `json:"send,omitzero"`

	// nodesBelow are nodes that granted less than requested, sorted, at most 10.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=253
	NodesBelow []string `json:"nodesBelow,omitempty"`
}

// SocketBufferStatus is one direction of the socket buffers.
type SocketBufferStatus struct {
	// requested is the size asked for, in bytes.
	// +optional
	Requested *resource.Quantity `json:"requested,omitempty"`

	// grantedMin is the smallest size that a pod got, in bytes; half of what the kernel
	// reports, because the kernel doubles it. Unset: no report yet.
	// +optional
	GrantedMin *resource.Quantity `json:"grantedMin,omitempty"`
}

// CertificateStatus is one certificate that the pods loaded.
type CertificateStatus struct {
	// secretName is where it comes from. Empty: self-signed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// notAfter is the end of its validity.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// sha256 is the fingerprint of its DER form, in hex.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`

	// dnsNames are the names it is valid for, at most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	DNSNames []string `json:"dnsNames,omitempty"`
}
