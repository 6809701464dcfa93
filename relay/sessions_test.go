package relay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

func TestTheEndOfASessionHasItsWord(t *testing.T) {
	fault := func(code wire.SessionCode) error {
		return fmt.Errorf("session: %w", &lite.Error{Code: code, Err: errors.New("why")})
	}
	closed := func(code uint64, remote, fromTransport bool) error {
		return &transport.CloseError{Code: code, Remote: remote, Transport: fromTransport}
	}
	for _, row := range []struct {
		name            string
		err             error
		forced, drained bool
		want            string
	}{
		{"the peer closed with NO_ERROR", nil, false, false, "clean"},
		{"the peer closed with a code of its own", closed(77, true, false), false, false, "clean"},
		{"the peer broke a rule", fault(wire.SessionProtocolViolation), false, false, "protocol"},
		{"the peer broke a rule while it was to leave", fault(wire.SessionProtocolViolation), false, true, "protocol"},
		{"its transport found a fault", closed(1, true, true), false, false, "lost"},
		{"it was silent", errors.New("timeout: no recent network activity"), false, false, "lost"},
		{"its grant was over", fault(wire.SessionUnauthorized), false, false, "expired"},
		{"it took nothing", fault(wire.SessionCode(wire.StreamTooFarBehind)), false, false, "stalled"},
		{"it left when told to", nil, false, true, "drained"},
		{"it was lost when told to leave", errors.New("timeout"), false, true, "drained"},
		{"it stayed", nil, true, true, "forced"},
		{"the relay was ended", nil, true, false, "forced"},
	} {
		if got := closeReason(&openSession{drained: row.drained}, row.err, row.forced); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}
