// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the MoQRelay API: what a user writes, what the operator
// answers, and the closed lists of condition types and reasons.
//
// Read MoQRelay, MoQRelaySpec and MoQRelayStatus first, then the reasons in
// moqrelay_conditions.go. Defaults and rules are markers beside the fields; the
// API server enforces them, so code that got an object from there may rely on
// them. A field that the relay's configuration file has too bears the same name
// and unit there.
//
// The package holds types alone: it imports no client and nothing of ours.
//
// +kubebuilder:object:generate=true
// +groupName=moqrelay.io
package v1alpha1
