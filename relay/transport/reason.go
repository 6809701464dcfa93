package transport

import "unicode/utf8"

// MaxReason is how many bytes of a close reason are sent.
const MaxReason = 1024

// ClipReason cuts a close reason to [MaxReason] bytes, at a character's border.
// Every implementation of [Conn] sends the reason so.
func ClipReason(reason string) string {
	if len(reason) <= MaxReason {
		return reason
	}
	n := MaxReason
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}
