package qmux

import "fmt"

// Draft is a version of QMux: the number of draft-ietf-quic-qmux.
type Draft uint8

// The drafts that are spoken.
const (
	// Draft00 has no records: one frame per WebSocket message, no pings, no idle timer.
	Draft00 Draft = 0
	// Draft01 has records, pings and an idle timer.
	Draft01 Draft = 1
	// Draft02 is draft 01 with stricter rules for parameters and pings, and RESET_STREAM_AT.
	Draft02 Draft = 2
)

// Drafts returns all drafts that are spoken, the newest first.
func Drafts() []Draft { return []Draft{Draft02, Draft01, Draft00} }

// String returns the version's token, such as "qmux-02".
func (d Draft) String() string { return fmt.Sprintf("qmux-%02d", uint8(d)) }

// ParseDraft is the inverse of [Draft.String]. The error names the text.
func ParseDraft(s string) (Draft, error) {
	for _, d := range Drafts() {
		if s == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is no QMux draft that we speak (qmux-02, qmux-01, qmux-00)", s)
}

const (
	// maxFrameSize bounds a whole frame of draft 00. It has no parameter.
	maxFrameSize = 16384
	// defaultRecordSize is the least max_record_size there is, and what applies without one.
	defaultRecordSize = 16382
	// maxStreamPayload is the most payload bytes that a STREAM frame carries:
	// older released receivers refuse more, whatever record size they advertise.
	maxStreamPayload = 16352
	// maxStreamCount bounds every count of streams (RFC 9000, section 4.6).
	maxStreamCount = 1 << 60
)

// receiveLimit is the largest record, in bytes, that we accept.
func (d Draft) receiveLimit() int {
	if d == Draft00 {
		return maxFrameSize
	}
	return defaultRecordSize
}

// oneFramePerRecord is true where a record is a single frame. Released peers
// drop in silence what follows the first one, and so do we.
func (d Draft) oneFramePerRecord() bool { return d == Draft00 }

// hasPing says whether QX_PING has a sequence number that can be answered, and
// with it whether the idle timer runs.
func (d Draft) hasPing() bool { return d >= Draft01 }

// hasResetStreamAt says whether RESET_STREAM_AT is a frame of this draft. We
// advertise it wherever it is.
func (d Draft) hasResetStreamAt() bool { return d >= Draft02 }

// strict says whether ping numbers that repeat or were never sent end the session.
func (d Draft) strict() bool { return d >= Draft02 }

// parametersOrderCode is the error for parameters that are not first, or come again.
func (d Draft) parametersOrderCode() uint64 {
	if d >= Draft02 {
		return codeProtocolViolation
	}
	return codeTransportParameter
}
