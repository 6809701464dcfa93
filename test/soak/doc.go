// Package soak keeps a relay busy for a long time with everything that comes and
// goes: viewers that join and leave every 100 ms over every transport and version,
// publishers that reconnect, tokens that expire, groups that are aborted within a
// frame, a viewer that never reads, processes that are killed, fetches, datagrams,
// bad requests, changed configuration, and a second relay that drains again and
// again. The relay is built with the race detector. When all have left, nothing may
// be left of them: gauges, goroutines, and the counts of what was opened and closed
// say so. Build tag soak; "make soak SOAKTIME=30m" runs it.
package soak
