package main

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/moqrelay/operator/relay/config"
)

func TestSignalsReloadDrainAndEnd(t *testing.T) {
	signals := make(chan os.Signal, 8)
	var did []string
	note := func(what string) func() { return func() { did = append(did, what) } }
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGHUP, os.Interrupt, syscall.SIGTERM} {
		signals <- s
	}
	obey(signals, nil, actions{reload: note("reload"), drain: note("drain"), end: note("end")})
	if want := []string{"reload", "drain", "reload", "end"}; !slices.Equal(did, want) {
		t.Errorf("the signals did %v, want %v", did, want)
	}
}

func TestSIGHUPIsLeftAloneWhereNoFileCanBeReadAgain(t *testing.T) {
	selfSigned := &config.Loaded{Config: config.Development()}
	for _, row := range []struct {
		name   string
		source config.Source
		loaded *config.Loaded
		want   bool
	}{
		{"no file", config.Source{}, selfSigned, false},
		{"a config file", config.Source{File: "relay.yaml"}, selfSigned, true},
		{"a live file", config.Source{LiveFile: "live.yaml"}, selfSigned, true},
		{"certificate files", config.Source{}, &config.Loaded{Config: config.Default()}, true},
	} {
		if got := slices.Contains(caught(row.source, row.loaded), os.Signal(syscall.SIGHUP)); got != row.want {
			t.Errorf("%s: SIGHUP is caught: %v, want %v", row.name, got, row.want)
		}
	}
}
