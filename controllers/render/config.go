// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/config"
)

// Where a relay's pod finds its files. Each is a mounted directory: the kubelet
// never updates a single mounted file.
const (
	configDir  = "/etc/moq/config"
	liveDir    = "/etc/moq/live"
	tlsDir     = "/etc/moq/tls"
	keysDir    = "/etc/moq/keys"
	clientsDir = "/etc/moq/clients"
	runDir     = "/run/moq"
	configFile = "relay.yaml"
	liveFile   = "live.yaml"
)

// files are the relay's two configuration files.
type files struct{ config, live []byte }

// renderFiles writes the relay's configuration and has the relay's own rules judge it.
func renderFiles(relay *v1alpha1.MoQRelay, mode v1alpha1.SocketBuffersMode) (files, error) {
	c := relayConfig(relay, mode)
	if err := c.Validate(); err != nil {
		return files{}, err
	}
	restart, live := c.MarshalFiles()
	return files{config: restart, live: live}, nil
}

// relayConfig is the relay's configuration: its defaults, and what the spec sets.
func relayConfig(relay *v1alpha1.MoQRelay, mode v1alpha1.SocketBuffersMode) config.Config {
	spec := &relay.Spec
	c := config.Default()
	c.Status.Listen = ":9090"
	c.Auth = authConfig(&spec.Auth)
	c.TLS = tlsConfig(spec.TLS)
	c.Cluster = clusterConfig(relay)
	c.Protocols = words(spec.Protocols)
	setTransports(&c.Transports, spec.Transports)
	setWindows(&c.Windows, spec.Windows)
	setBytes(&c.SocketBuffers.Receive, spec.SocketBuffers.Receive)
	setBytes(&c.SocketBuffers.Send, spec.SocketBuffers.Send)
	c.SocketBuffers.Mode = config.BufferMode(mode)
	setWord(&c.SocketBuffers.Requirement, spec.SocketBuffers.Requirement)
	c.Cache.MaxBytes = config.Size{}
	setBytes(&c.Cache.MaxBytes.Bytes, spec.Cache.MaxBytes)
	setNumber(&c.Cache.MaxAgeSeconds, spec.Cache.MaxAgeSeconds)
	setLimits(&c.Limits, spec.Limits)
	setNumber(&c.Drain.TimeoutSeconds, spec.Drain.TimeoutSeconds)
	setWord(&c.Log.Level, spec.Log.Level)
	setWord(&c.Log.Format, spec.Log.Format)
	return c
}

// authConfig points at the mounted Secrets. Their directories bear the Secrets'
// names, which is how the relay's messages name them.
func authConfig(spec *v1alpha1.AuthSpec) config.Auth {
	c := config.Auth{
		Mode:           config.AuthMode(spec.Mode),
		PublicPrefixes: words(spec.PublicPrefixes),
		MTLSPublish:    words(spec.MTLSPublish),
		MTLSSubscribe:  words(spec.MTLSSubscribe),
	}
	if spec.KeysSecretName != "" {
		c.KeyDirectory = path.Join(keysDir, spec.KeysSecretName)
	}
	if spec.ClientCASecretName != "" {
		c.ClientCA = path.Join(clientsDir, spec.ClientCASecretName, "ca.crt")
	}
	return c
}

// tlsConfig points at the mounted Secret. The directory bears the Secret's name,
// which is how a preflight report names it.
func tlsConfig(spec v1alpha1.TLSSpec) config.TLS {
	if spec.Mode == v1alpha1.TLSSelfSigned {
		return config.TLS{Mode: config.SelfSigned}
	}
	return config.TLS{Mode: config.Files, Directories: []string{path.Join(tlsDir, spec.SecretName)}}
}

func setTransports(c *config.Transports, spec v1alpha1.TransportsSpec) {
	setWord(&c.QUIC.State, spec.QUIC.State)
	setNumber(&c.QUIC.InitialPacketSize, spec.QUIC.InitialPacketSize)
	setNumber(&c.QUIC.IdleTimeoutSeconds, spec.QUIC.IdleTimeoutSeconds)
	setWord(&c.WebTransport.State, spec.WebTransport.State)
	setWord(&c.WebSocket.State, spec.WebSocket.State)
	if len(spec.QMuxDrafts) > 0 {
		c.QMuxDrafts = words(spec.QMuxDrafts)
	}
	if len(spec.AllowedOrigins) > 0 {
		c.AllowedOrigins = words(spec.AllowedOrigins)
	}
}

func setWindows(c *config.Windows, spec v1alpha1.WindowsSpec) {
	setBytes(&c.Stream, spec.Stream)
	setBytes(&c.Connection, spec.Connection)
	setBytes(&c.PacingCap, spec.PacingCap)
	setNumber(&c.MaxIncomingStreams, spec.MaxIncomingStreams)
}

func setLimits(c *config.Limits, spec v1alpha1.LimitsSpec) {
	setNumber(&c.Sessions, spec.Sessions)
	setNumber(&c.SessionsPerIP, spec.SessionsPerIP)
	setNumber(&c.SubscriptionsPerSession, spec.SubscriptionsPerSession)
	setNumber(&c.AnnouncementsPerSession, spec.AnnouncementsPerSession)
	setNumber(&c.FetchesPerSession, spec.FetchesPerSession)
}

// setWord, setNumber and setBytes set what the spec sets.
func setWord[To, From ~string](to *To, from From) {
	if from != "" {
		*to = To(from)
	}
}

func setNumber(to *int, from *int32) {
	if from != nil {
		*to = int(*from)
	}
}

func setBytes(to *config.Bytes, from *resource.Quantity) {
	if from != nil {
		*to = config.Bytes(from.Value())
	}
}

// words returns a list of named strings as plain ones; nil for an empty one.
func words[T ~string](list []T) []string {
	var plain []string
	for _, word := range list {
		plain = append(plain, string(word))
	}
	return plain
}
