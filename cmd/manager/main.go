// moq-relay-operator watches MoQRelays and makes relays of them.
//
// It exits 2 when a flag is wrong, 1 when it cannot go on, and 0 when it was told
// to stop.
package main

import (
	"errors"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	err := newCommand().ExecuteContext(ctrl.SetupSignalHandler())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "moq-relay-operator:", err)
	if _, ok := errors.AsType[*usageError](err); ok {
		os.Exit(2)
	}
	os.Exit(1)
}
