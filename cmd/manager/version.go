package main

import (
	"runtime/debug"
	"strings"
)

// buildVersion is set by the linker (-X main.buildVersion=v0.1.0) where the build
// has no repository to read it from.
var buildVersion string

// version is the operator's version: the linker's, else the repository's.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// imageTag is the tag of the relay image of the same release; latest for a build
// that is no release.
func imageTag() string {
	v := version()
	if !strings.HasPrefix(v, "v") || strings.ContainsAny(v, "-+") {
		return "latest"
	}
	return v
}
