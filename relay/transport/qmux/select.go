package qmux

import (
	"fmt"
	"strconv"
	"strings"
)

// A Selection is what a subprotocol string means.
type Selection struct {
	// Subprotocol is the string as offered, to be echoed byte for byte.
	Subprotocol string
	// Draft is the QMux version.
	Draft Draft
	// Protocol is the application's token, such as "moq-lite-06".
	Protocol string
}

// Select chooses among what a client offers: offered are its
// Sec-WebSocket-Protocol header lines, each with any number of entries between
// commas. Our order decides: protocols first, drafts inside. A pair is written
// "qmux-02.moq-lite-06"; after all pairs the plain token of a moq-lite version,
// as the moq-lite draft has it, is taken as draft 02. Tokens of QMux alone carry
// no application protocol and are never selected. ok is false when nothing matches.
func Select(offered []string, protocols []string, drafts []Draft) (s Selection, ok bool) {
	offers := make(map[string]bool)
	for _, line := range offered {
		for entry := range strings.SplitSeq(line, ",") {
			offers[strings.TrimSpace(entry)] = true
		}
	}
	for _, s := range candidates(protocols, drafts) {
		if offers[s.Subprotocol] {
			return s, true
		}
	}
	return Selection{}, false
}

// candidates lists all that we would select, the preferred first.
func candidates(protocols []string, drafts []Draft) []Selection {
	list := pairs(protocols, drafts)
	for _, d := range drafts {
		for _, p := range protocols {
			if d == Draft02 && strings.HasPrefix(p, "moq-lite-") {
				list = append(list, Selection{p, d, p})
			}
		}
	}
	return list
}

// pairs lists the protocols with each draft that may carry them.
func pairs(protocols []string, drafts []Draft) []Selection {
	var list []Selection
	for _, p := range protocols {
		for _, d := range drafts {
			if d != Draft00 || !needsRecords(p) {
				list = append(list, Selection{d.String() + "." + p, d, p})
			}
		}
	}
	return list
}

// needsRecords is true for moq-transport 18 and later, which must not run on draft 00.
func needsRecords(protocol string) bool {
	number, ok := strings.CutPrefix(protocol, "moqt-")
	n, err := strconv.Atoi(number)
	return ok && err == nil && n >= 18
}

// parseSubprotocol says what a server's choice means: a pair, or a plain token.
func parseSubprotocol(s string) (Selection, error) {
	version, protocol, found := strings.Cut(s, ".")
	if !found && strings.HasPrefix(s, "moq-lite-") {
		return Selection{s, Draft02, s}, nil
	}
	d, err := ParseDraft(version)
	if err != nil || protocol == "" {
		return Selection{}, fmt.Errorf("qmux: the server chose subprotocol %q, which names no version and protocol", s)
	}
	return Selection{s, d, protocol}, nil
}
