package load

import (
	"fmt"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// TargetText is a Target as it is written on a command line. Empty fields mean
// what they mean in Target.
type TargetText struct {
	// URL is as Target.URL.
	URL string
	// Transport is quic, webtransport or websocket.
	Transport string
	// Version is a token such as moq-lite-06, or several between commas.
	Version string
	// Draft is such as qmux-02, or several between commas.
	Draft string
	// CertificateHashes are as [ParseCertificateHash] reads them.
	CertificateHashes []string
	// Insecure is as Target.Insecure.
	Insecure bool
	// IdleTimeout is as Target.IdleTimeout.
	IdleTimeout time.Duration
	// Epochs offers the version that has them before all others, where Version
	// names none.
	Epochs bool
}

// Parse returns the target. An error names the flag that is wrong and what it may be.
func (t TargetText) Parse() (Target, error) {
	target := Target{URL: t.URL, Insecure: t.Insecure, IdleTimeout: t.IdleTimeout}
	if t.IdleTimeout != 0 && t.IdleTimeout < time.Second {
		return Target{}, fmt.Errorf("--idle-timeout %v: at least a second is wanted", t.IdleTimeout)
	}
	switch kind := transport.Kind(t.Transport); kind {
	case "", transport.QUIC, transport.WebTransport, transport.WebSocket:
		target.Transport = kind
	default:
		return Target{}, fmt.Errorf("--transport %q: quic, webtransport and websocket are spoken", t.Transport)
	}
	for token := range list(t.Version) {
		v, err := lite.ParseVersion(token)
		if err != nil {
			return Target{}, fmt.Errorf("--version %q: moq-lite-03 to moq-lite-06, moq-lite-06-wip and moq-lite-07-wip are spoken", token)
		}
		target.Versions = append(target.Versions, v)
	}
	if t.Epochs && len(target.Versions) == 0 {
		target.Versions = append([]lite.Version{lite.Lite07wip}, lite.Released()...)
	}
	for name := range list(t.Draft) {
		d, err := qmux.ParseDraft(name)
		if err != nil {
			return Target{}, fmt.Errorf("--qmux-draft %q: qmux-00, qmux-01 and qmux-02 are spoken", name)
		}
		target.Drafts = append(target.Drafts, d)
	}
	for _, text := range t.CertificateHashes {
		hash, err := ParseCertificateHash(text)
		if err != nil {
			return Target{}, fmt.Errorf("--certificate-sha256: %w", err)
		}
		target.CertificateHashes = append(target.CertificateHashes, hash)
	}
	return target, target.Validate()
}

// list are the entries of a comma-separated list; none of an empty text.
func list(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for entry := range strings.SplitSeq(text, ",") {
			if entry = strings.TrimSpace(entry); entry != "" && !yield(entry) {
				return
			}
		}
	}
}
