package main

import (
	"runtime/debug"
	"strings"
)

// version is set by the linker (-X main.version=v0.1.0) where the build has no
// repository to read it from.
var version string

// ownVersion is the operator's version: the linker's, else the repository's.
func ownVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// imageTag is the tag of the relay image of the same release; latest for a build
// that is no release.
func imageTag() string {
	v := ownVersion()
	if !strings.HasPrefix(v, "v") || strings.ContainsAny(v, "-+") {
		return "latest"
	}
	return v
}
