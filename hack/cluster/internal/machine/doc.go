// Package machine knows the machine that the cluster is a guest on: its network
// addresses, cgroups, listening ports, processes, sysctls and installed programs,
// and how to give back what was changed.
//
// Everything that decides something takes its input as a value or reads below a
// root folder that a test can make, so that the decisions are tested without
// root and without a cluster.
package machine
