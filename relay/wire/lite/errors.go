package lite

import "fmt"

// A SessionCode closes a session. It is not a Go error: whoever closes or is
// closed has one that carries it.
type SessionCode uint64

// The codes that close a session.
const (
	SessionNoError                SessionCode = 0x0
	SessionInternalError          SessionCode = 0x1
	SessionUnauthorized           SessionCode = 0x2
	SessionProtocolViolation      SessionCode = 0x3
	SessionKeyValueFormatting     SessionCode = 0x6
	SessionGoawayTimeout          SessionCode = 0x10
	SessionControlMessageTimeout  SessionCode = 0x11
	SessionVersionNegotiationFail SessionCode = 0x15
)

// AppCode is where the codes of the application begin, for sessions and streams:
// application code n travels as AppCode+n.
const AppCode = 64

var sessionNames = map[SessionCode]string{
	SessionNoError:                "NO_ERROR",
	SessionInternalError:          "INTERNAL_ERROR",
	SessionUnauthorized:           "UNAUTHORIZED",
	SessionProtocolViolation:      "PROTOCOL_VIOLATION",
	SessionKeyValueFormatting:     "KEY_VALUE_FORMATTING_ERROR",
	SessionGoawayTimeout:          "GOAWAY_TIMEOUT",
	SessionControlMessageTimeout:  "CONTROL_MESSAGE_TIMEOUT",
	SessionVersionNegotiationFail: "VERSION_NEGOTIATION_FAILED",
}

// String returns the specification's name, or the number.
func (c SessionCode) String() string {
	if name, ok := sessionNames[c]; ok {
		return name
	}
	return codeNumber("session", uint64(c))
}

// A StreamCode resets a stream or asks the peer to stop it.
//
// This is the registry of draft -06, which we send on every version. Peers
// older than September 2026 number differently, so a received code says little
// on 03 to 05: see [StreamCode.Routine].
type StreamCode uint64

// The codes that end a stream.
const (
	StreamInternalError     StreamCode = 0x0
	StreamCancelled         StreamCode = 0x1
	StreamDeliveryTimeout   StreamCode = 0x2
	StreamSessionClosed     StreamCode = 0x3
	StreamGoingAway         StreamCode = 0x4
	StreamTooFarBehind      StreamCode = 0x5
	StreamMalformedTrack    StreamCode = 0x12
	StreamNoCapacity        StreamCode = 0x30
	StreamControlTimeout    StreamCode = 0x31
	StreamGroupTooLarge     StreamCode = 0x32
	StreamNotFound          StreamCode = 0x33
	StreamOld               StreamCode = 0x34 // superseded by a newer group
	StreamEvicted           StreamCode = 0x35 // memory; may be fetched again
	StreamUnroutable        StreamCode = 0x36
	StreamWrongSize         StreamCode = 0x37
	StreamFrameTooLarge     StreamCode = 0x38
	StreamTimestampMismatch StreamCode = 0x39
	StreamUnauthorized      StreamCode = 0x3a // 07-wip
	StreamNotFetchable      StreamCode = 0x3b // 07-wip
)

var streamNames = map[StreamCode]string{
	StreamInternalError:     "INTERNAL_ERROR",
	StreamCancelled:         "CANCELLED",
	StreamDeliveryTimeout:   "DELIVERY_TIMEOUT",
	StreamSessionClosed:     "SESSION_CLOSED",
	StreamGoingAway:         "GOING_AWAY",
	StreamTooFarBehind:      "TOO_FAR_BEHIND",
	StreamMalformedTrack:    "MALFORMED_TRACK",
	StreamNoCapacity:        "NO_CAPACITY",
	StreamControlTimeout:    "CONTROL_TIMEOUT",
	StreamGroupTooLarge:     "GROUP_TOO_LARGE",
	StreamNotFound:          "NOT_FOUND",
	StreamOld:               "OLD",
	StreamEvicted:           "EVICTED",
	StreamUnroutable:        "UNROUTABLE",
	StreamWrongSize:         "WRONG_SIZE",
	StreamFrameTooLarge:     "FRAME_TOO_LARGE",
	StreamTimestampMismatch: "TIMESTAMP_MISMATCH",
	StreamUnauthorized:      "UNAUTHORIZED",
	StreamNotFetchable:      "NOT_FETCHABLE",
}

// String returns the specification's name, or the number.
func (c StreamCode) String() string {
	if name, ok := streamNames[c]; ok {
		return name
	}
	return codeNumber("stream", uint64(c))
}

// Routine reports whether a received code is nothing to alarm about on any
// version: cancelled, and 0, which older peers send where they mean nothing.
func (c StreamCode) Routine() bool {
	return c == StreamInternalError || c == StreamCancelled
}

// codeNumber names a code that is in no registry of ours.
func codeNumber(kind string, c uint64) string {
	if c >= AppCode {
		return fmt.Sprintf("application code %d", c-AppCode)
	}
	return fmt.Sprintf("unknown %s code %#x", kind, c)
}
