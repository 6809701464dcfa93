// Package config is what a relay can be told: [Config], its defaults, its check
// and the reading of its files, environment and flags.
//
// A setting has one name everywhere, the dotted key of the file
// ("windows.maxIncomingStreams"); its flag ("--windows-max-incoming-streams") and
// variable ("MOQ_WINDOWS_MAX_INCOMING_STREAMS") follow from it. [Keys] lists them
// all with default, range and class. [Load] joins the sources, flag over
// environment over file over default, and reports every fault at once.
//
// Keys are of two classes. Those of [ClassRestart] take effect at start; those of
// [ClassLive] also when a file changes while the relay runs, which [Watch] reports.
// A second file may hold live keys alone, so that whoever writes both can change it
// without replacing the process.
//
// The package starts no goroutine.
package config
