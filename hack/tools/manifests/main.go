// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manifests prints the objects of a kustomize folder or of a Helm chart,
// by the libraries that kubectl and helm are made of: building those programs
// costs minutes, this one seconds.
//
//	manifests kustomize DIR
//	manifests helm CHART NAMESPACE [KEY=VALUE...]
//	manifests check ROOT
//
// The last fails unless kustomize's config/default and the chart below ROOT hold
// the same objects.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

const usage = "usage: manifests kustomize DIR | helm CHART NAMESPACE [KEY=VALUE...] | check ROOT"

func run(args []string, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "kustomize":
		return emit(out)(kustomize(args[1]))
	case len(args) >= 3 && args[0] == "helm":
		return emit(out)(helm(args[1], args[2], args[3:]))
	case len(args) == 2 && args[0] == "check":
		return check(args[1], out)
	default:
		return fmt.Errorf("%q is not a command\n%s", args, usage)
	}
}

// emit writes a manifest that came without an error.
func emit(out io.Writer) func([]byte, error) error {
	return func(manifest []byte, err error) error {
		if err != nil {
			return err
		}
		_, err = out.Write(manifest)
		return err
	}
}
