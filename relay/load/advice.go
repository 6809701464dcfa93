package load

import (
	"crypto/x509"
	"errors"
	"strings"
	"syscall"

	"github.com/moqrelay/operator/relay/model"
)

// Advice says what a person may try next after an error of this package; empty
// where the error says all that is known.
func Advice(err error) string {
	text := err.Error()
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	_, issuer := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	switch {
	case errors.Is(err, ErrCorrupt):
		return "if the track is not one of `moq-load pub`, watch it with `sub --print`; else the bytes were changed on their way"
	case issuer || name || has("x509:", "unknown certificate", "certificate signed by unknown authority"):
		return "for a relay with a self-signed certificate write the URL as http://HOST:PORT, which fetches and pins its hash, or give --certificate-sha256"
	case has("401", "403", "UNAUTHORIZED", "Unauthorized"):
		return "the relay wants a token that allows this path: add ?jwt=TOKEN to the URL"
	case has("was not announced"), errors.Is(err, model.ErrNotFound), errors.Is(err, model.ErrUnroutable):
		return "nobody publishes that here: start the publisher first, or name another with --broadcast and --track; `curl http://HOST:PORT/announced/` lists what there is"
	case has("the relay chose protocol", "no application protocol", "ALPN"):
		return "the relay speaks none of the versions offered: see its `protocols`, or offer others with --version"
	case errors.Is(err, syscall.ECONNREFUSED), has("connection refused", "no answer within", "no recent network activity"):
		return "is a relay there? `moq-relay serve --dev` runs one on this machine at http://127.0.0.1:4443; QUIC and WebTransport need its UDP port, WebSocket its TCP port"
	case has("bytes are missing"):
		return "a live viewer may miss some: --lossy accepts that, --max-latency lets groups come later"
	case has("executable file not found", "no such file"):
		return "name the relay's program by its path, such as --start \"bin/moq-relay serve --dev\"; `go build -o bin/moq-relay ./cmd/relay` makes it"
	}
	return ""
}
