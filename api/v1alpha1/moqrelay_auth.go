// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// AuthMode says how a client proves that it may publish or watch.
//
// +kubebuilder:validation:Enum=None;JWT
type AuthMode string

// The values of AuthMode.
const (
	// AuthNone lets everyone who reaches the relay publish and watch everything.
	AuthNone AuthMode = "None"
	// AuthJWT asks for a token, a client certificate, or a public path.
	AuthJWT AuthMode = "JWT"
)

// AuthSpec says who may publish and watch.
//
// +kubebuilder:validation:XValidation:rule="self.mode != 'JWT' || has(self.keysSecretName) || has(self.clientCASecretName) || has(self.publicPrefixes)",message="auth.mode JWT lets nobody in without one of auth.keysSecretName, auth.clientCASecretName and auth.publicPrefixes"
// +kubebuilder:validation:XValidation:rule="self.mode != 'None' || !(has(self.keysSecretName) || has(self.clientCASecretName) || has(self.publicPrefixes))",message="auth.keysSecretName, auth.clientCASecretName and auth.publicPrefixes have no effect while auth.mode is None: remove them, or set auth.mode JWT"
// +kubebuilder:validation:XValidation:rule="has(self.clientCASecretName) == (has(self.mtlsPublish) || has(self.mtlsSubscribe))",message="auth.clientCASecretName and at least one of auth.mtlsPublish and auth.mtlsSubscribe need each other: the first says whose certificates count, the others what they grant"
type AuthSpec struct {
	// mode is None or JWT. None: everyone who reaches the relay may publish and watch
	// everything. JWT: a client shows a token (?jwt=… in the URL) or a certificate, or
	// uses a public path. No default, so that an open relay is a decision. Change: rolling.
	// +required
	Mode AuthMode `json:"mode"`

	// keysSecretName is a Secret of this namespace with the keys that verify tokens: one
	// JWK per entry, named KID.jwk; moq-relay token keygen makes one. Only the pods read
	// it. Pods wait for no key: what is missing is refused. Change of the name: rolling;
	// of the Secret: live.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	KeysSecretName string `json:"keysSecretName,omitempty"`

	// publicPrefixes are paths, 1 to 64, at and below which everyone may publish and
	// watch without a token, such as "demo" or "public/events"; "/" is everything.
	// Change: live.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	PublicPrefixes []PathPrefix `json:"publicPrefixes,omitempty"`

	// clientCASecretName is a Secret of this namespace whose entry ca.crt holds the PEM
	// certificates that sign client certificates. Only the pods read it. A client whose
	// certificate they signed gets mtlsPublish and mtlsSubscribe. Change of the name:
	// rolling; of the Secret: live, for new connections.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ClientCASecretName string `json:"clientCASecretName,omitempty"`

	// mtlsPublish is what a client with a certificate may publish: 1 to 64 patterns of
	// paths, such as "studio/**" or "room/*/camera". Change: rolling.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MTLSPublish []PathPattern `json:"mtlsPublish,omitempty"`

	// mtlsSubscribe is what a client with a certificate may watch, likewise. Change:
	// rolling.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MTLSSubscribe []PathPattern `json:"mtlsSubscribe,omitempty"`
}

// PathPrefix is a path of broadcasts with everything below it: "room/a". "/" is
// everything.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self == '/' || self.matches('^([^/.,][^/,]*|[.][^/.,][^/,]*|[.][.][^/,]+)(/([^/.,][^/,]*|[.][^/.,][^/,]*|[.][.][^/,]+))*$')",message="a path prefix is segments separated by one '/', none of them '.' or '..', without '/' at its ends and without ','; '/' alone is everything"
type PathPrefix string

// PathPattern is a path of broadcasts in which "*" stands for one segment and "**",
// once, for any number.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule="self.matches('^([*]{1,2}|[^/*,]+)(/([*]{1,2}|[^/*,]+))*$') && !self.matches('(^|/)[.][.]?(/|$)') && !self.matches('[*][*].*[*][*]')",message="a path pattern is segments separated by one '/': names without '*' and ',', '*' for one segment, '**' for any number, once; none is '.' or '..'"
type PathPattern string
