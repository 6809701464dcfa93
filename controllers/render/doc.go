// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns a MoQRelay into the objects that make it run: Render, and
// its result Objects.
//
// Everything here is a pure function of its arguments: no client, no clock, no
// randomness, so equal arguments give equal bytes and a golden file says it all.
// A field of the spec that is unset renders nothing; the relay's own default then
// holds. One file per kind of object.
//
// It does not decide whether an object has to be written, nor in which namespace
// a pod may touch its node: the latter comes in as Options.HostAccess.
package render
