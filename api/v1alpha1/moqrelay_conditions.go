// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. All of them exist after the first pass over an object.
// Polarity is positive (True is good) except for Progressing and Degraded.
const (
	// ConditionReady sums up: the first False of Reconciled, Available,
	// CertificateReady (ExpiringSoon aside) and AddressReady, its reason copied.
	ConditionReady = "Ready"
	// ConditionReconciled is True when every child equals our intent.
	ConditionReconciled = "Reconciled"
	// ConditionAvailable is True when enough pods serve, or none are wanted.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while a rollout, a scale or a drain runs.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when something is wrong although service may go on.
	ConditionDegraded = "Degraded"
	// ConditionSocketBuffersReady is True when every pod was granted the UDP
	// socket buffers that it asked for.
	ConditionSocketBuffersReady = "SocketBuffersReady"
	// ConditionCertificateReady is True when every pod has a valid certificate.
	ConditionCertificateReady = "CertificateReady"
	// ConditionAddressReady is True when clients have an address.
	ConditionAddressReady = "AddressReady"
	// ConditionDataPlaneHealthy is True when every pod says on its status port that it
	// loses nothing and reaches the others. Ready does not depend on it.
	ConditionDataPlaneHealthy = "DataPlaneHealthy"
	// ConditionConfigurationApplied is True when every ready pod says that it works by
	// the configuration that the spec asks for. Ready does not depend on it.
	ConditionConfigurationApplied = "ConfigurationApplied"
)

// Reasons of more than one condition.
const (
	// ReasonPending (any condition, Unknown): nothing was observed yet. Passes by itself.
	ReasonPending = "Pending"
	// ReasonScaledToZero (Available, Ready: True): spec.replicas is 0, as the user asked.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonPodSecurityDenied (Degraded: True; Available, Progressing: False): the
	// namespace's Pod Security level refuses the pods. The cluster admin raises the
	// level, or the user sets socketBuffers.mode Verify, which passes restricted.
	ReasonPodSecurityDenied = "PodSecurityDenied"
	// ReasonAdmissionDenied (Degraded: True; Available, Progressing: False): a policy
	// or webhook refuses the pods; the message holds its text. The cluster admin or
	// the user, as that text says.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonQuotaExceeded (Degraded: True; Available, Progressing: False): the
	// namespace's quota has no room for the pods. The user lowers resources or
	// replicas, or the cluster admin raises the quota.
	ReasonQuotaExceeded = "QuotaExceeded"
)

// Reasons of Reconciled.
const (
	// ReasonApplied (True): every child equals our intent.
	ReasonApplied = "Applied"
	// ReasonPaused (False): the annotation moqrelay.io/paused keeps the operator from
	// changing children. The user removes it.
	ReasonPaused = "Paused"
	// ReasonNameConflict (False): an object of a child's name exists that is not
	// ours; it is never touched. The user renames one of the two.
	ReasonNameConflict = "NameConflict"
	// ReasonInvalidSpec (False): the spec cannot be rendered, although the API server
	// took it (an older CRD, say). The user corrects the field that the message names.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonHostAccessNotAllowed (False): socketBuffers.mode RaiseNode in a namespace
	// without the label moqrelay.io/host-access=allowed. The cluster admin sets the
	// label, or the user chooses Auto or Verify.
	ReasonHostAccessNotAllowed = "HostAccessNotAllowed"
	// ReasonApplyFailed (False): the API server refused a write; it is tried again.
	// The message holds its text, which says whose turn it is.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons of Available.
const (
	// ReasonMinimumReady (True): at least max(1, replicas-1) pods are ready.
	ReasonMinimumReady = "MinimumReady"
	// ReasonNoReadyPods (False): no pod is ready. Degraded and CertificateReady say
	// why; while pods start it passes by itself.
	ReasonNoReadyPods = "NoReadyPods"
	// ReasonBelowMinimum (False): some pods are ready, but fewer than
	// max(1, replicas-1). Degraded says why.
	ReasonBelowMinimum = "BelowMinimum"
)

// Reasons of Progressing.
const (
	// ReasonRolloutStarted (True): pods of a new template are replacing old ones.
	ReasonRolloutStarted = "RolloutStarted"
	// ReasonScaling (True): the number of pods is on its way to spec.replicas.
	ReasonScaling = "Scaling"
	// ReasonDraining (True): all wanted pods run; old ones still let their sessions
	// move away, for at most drain.timeoutSeconds.
	ReasonDraining = "Draining"
	// ReasonRolloutComplete (False): nothing is under way.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonRolloutStalled (False): the rollout passed its progress deadline. Degraded
	// says why; the user corrects that or takes the change back.
	ReasonRolloutStalled = "RolloutStalled"
)

// Reasons of Degraded.
const (
	// ReasonAsExpected (False): no pod reports trouble.
	ReasonAsExpected = "AsExpected"
	// ReasonImagePull (True): a pod cannot pull its image. The user corrects image or
	// imagePullSecrets; pods that run go on.
	ReasonImagePull = "ImagePull"
	// ReasonImageArchitecture (True): the image is built for another processor. The
	// user chooses a multi-platform image or restricts pod.nodeSelector.
	ReasonImageArchitecture = "ImageArchitecture"
	// ReasonCrashLoop (True): a container restarted three times in ten minutes; the
	// message holds the reason that the relay gave on exit.
	ReasonCrashLoop = "CrashLoop"
	// ReasonOOMKilled (True): the kernel killed a relay for its memory limit. The user
	// raises resources.limits.memory or lowers cache.maxBytes.
	ReasonOOMKilled = "OOMKilled"
	// ReasonUnschedulable (True): a pod has had no node for 60 s; the message holds
	// the scheduler's text. The user lowers resources or selectors, or the cluster
	// admin adds a node.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPreflightFailed (True): the preflight init container refused to let a
	// relay start: socketBuffers.requirement is Required and the grant is smaller, or
	// its configuration is wrong. The message holds its text.
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonCertificateInvalid (True): CertificateReady is False for a fault of the
	// Secret's content. The user corrects the Secret.
	ReasonCertificateInvalid = "CertificateInvalid"
)

// Reasons of SocketBuffersReady.
const (
	// ReasonGranted (True): every pod got both sizes as asked.
	ReasonGranted = "Granted"
	// ReasonReceiveBelowRequested (False): a node granted a smaller receive buffer;
	// the message names pod, node and both figures. The cluster admin allows
	// RaiseNode or raises net.core.rmem_max.
	ReasonReceiveBelowRequested = "ReceiveBelowRequested"
	// ReasonSendBelowRequested (False): the same for the send buffer and
	// net.core.wmem_max.
	ReasonSendBelowRequested = "SendBelowRequested"
	// ReasonRaiseRefused (False): RaiseNode was tried and the node refused it (a user
	// namespace, a security module). The cluster admin raises the limits by other
	// means, or the user sets Verify.
	ReasonRaiseRefused = "RaiseRefused"
	// ReasonNoReport (SocketBuffersReady, CertificateReady: Unknown): pods run, but a
	// preflight report is missing or unreadable, which points at an image that is not
	// ours. The user corrects image.
	ReasonNoReport = "NoReport"
)

// Reasons of CertificateReady.
const (
	// ReasonValid (True): every pod has a certificate that is valid for more than 14 days.
	ReasonValid = "Valid"
	// ReasonSelfSigned (True): tls.mode SelfSigned; the relay renews its certificate itself.
	ReasonSelfSigned = "SelfSigned"
	// ReasonSecretMissing (False): the Secret of tls.secretName does not exist or has
	// no tls.crt and tls.key. The user creates it; waiting pods then start by themselves.
	ReasonSecretMissing = "SecretMissing"
	// ReasonParseError (False): tls.crt or tls.key is not PEM of the right kind. The user.
	ReasonParseError = "ParseError"
	// ReasonKeyMismatch (False): tls.key does not belong to tls.crt. The user.
	ReasonKeyMismatch = "KeyMismatch"
	// ReasonExpired (False): the certificate has expired. The user renews it.
	ReasonExpired = "Expired"
	// ReasonNotYetValid (False): the certificate's validity has not begun. The user,
	// or the clock.
	ReasonNotYetValid = "NotYetValid"
	// ReasonExpiringSoon (False, but Ready stays): less than 14 days are left. The
	// user renews it.
	ReasonExpiringSoon = "ExpiringSoon"
)

// Reasons of AddressReady.
const (
	// ReasonAssigned (True): status.endpoints has addresses.
	ReasonAssigned = "Assigned"
	// ReasonNotRequested (True): service.type is None or ClusterIP, so no address
	// outside the cluster is expected.
	ReasonNotRequested = "NotRequested"
	// ReasonAddressPending (False): the balancer has given no address yet, or no ready
	// pod stands behind the node port.
	ReasonAddressPending = "AddressPending"
	// ReasonMixedProtocolUnsupported (False): the balancer cannot serve UDP and TCP on
	// one Service. The cluster admin changes the balancer, or the user service.type.
	ReasonMixedProtocolUnsupported = "MixedProtocolUnsupported"
	// ReasonProviderError (False): the balancer reports another fault; the message
	// holds its text.
	ReasonProviderError = "ProviderError"
)

// Reasons of DataPlaneHealthy. What pods say is asked for every 30 seconds. A
// reason with False is also Degraded's.
const (
	// ReasonHealthy (True): every pod answered and reports neither loss nor a missing peer.
	ReasonHealthy = "Healthy"
	// ReasonPeersMissing (DataPlaneHealthy: False; Degraded: True): for 60 s a pod has had
	// no session with another pod of the mesh that is ready for two minutes, so that its
	// viewers may miss what is published there. The message names both. The cluster admin lets UDP port 4444 pass
	// between the pods and looks at cluster DNS; the user at pods that do not start.
	ReasonPeersMissing = "PeersMissing"
	// ReasonKernelDrops (DataPlaneHealthy: False; Degraded: True): the kernel threw more
	// than 100 datagrams a second away in two samples in a row, because the relay's
	// receive buffer was full; it ends five minutes after the last such sample. The user
	// raises socketBuffers.receive, the CPU, or replicas.
	ReasonKernelDrops = "KernelDrops"
	// ReasonStatusUnreachable (DataPlaneHealthy, ConfigurationApplied: Unknown): three
	// times in a row a ready pod did not answer on its status port. Nothing is known of
	// it, and that is no outage. The cluster admin lets the operator reach TCP port 9090
	// of the pods.
	ReasonStatusUnreachable = "StatusUnreachable"
	// ReasonNoPods (DataPlaneHealthy, ConfigurationApplied: Unknown): no pod is ready, so that there is none to ask.
	ReasonNoPods = "NoPods"
)

// Reasons of ConfigurationApplied, by the hashes of status.configHash and
// liveConfigHash and of those that the pods report.
const (
	// ReasonConverged (True): every ready pod reports both hashes.
	ReasonConverged = "Converged"
	// ReasonRolloutPending (False): a ready pod still runs an older configuration that
	// only a new pod can change. Progressing says how far the rollout is.
	ReasonRolloutPending = "RolloutPending"
	// ReasonLiveReloadPending (False): a ready pod has not read the newest live
	// configuration yet. Its kubelet brings it within about 90 s; passes by itself.
	ReasonLiveReloadPending = "LiveReloadPending"
	// ReasonLiveReloadRejected (False): a ready pod refuses the newest live configuration
	// and works on by the one before; the message holds its words. An image that is older
	// than the operator does not know a new key: the user corrects image or the field.
	ReasonLiveReloadRejected = "LiveReloadRejected"
)

// ReasonReady (Ready: True): nothing that Ready sums up is False.
const ReasonReady = "Ready"

// Event reasons that are not reasons of a condition. Every bad reason above is
// also the reason of a Warning event on its transition, and RolloutStarted and
// RolloutComplete of Normal ones.
const (
	// EventDrainStarted (Normal): a pod began to drain.
	EventDrainStarted = "DrainStarted"
	// EventDrainComplete (Normal): a draining pod is gone.
	EventDrainComplete = "DrainComplete"
	// EventAddressAssigned (Normal): clients have a new address.
	EventAddressAssigned = "AddressAssigned"
	// EventRelayOpen (Warning): auth.mode is None, so everyone who reaches the relay
	// may publish and watch everything.
	EventRelayOpen = "RelayOpen"
	// EventSchemaSkew (Warning, about the CustomResourceDefinition): it lacks fields that
	// the operator knows, so that the API server drops them. The operator's readiness
	// probe fails meanwhile. The cluster admin applies the CRD of the operator's release.
	EventSchemaSkew = "SchemaSkew"
)
