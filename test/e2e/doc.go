// Package e2e tests the whole with real pods: the images of the Dockerfile, the
// operator installed by its chart, on the one-node Kubernetes of hack/cluster.
//
// The tests have the build tag e2e and are run by "make test-e2e", as root. The
// test binary runs three times, one inside the other: the outermost takes the
// machine's cluster lock, the second (the guard) brings the cluster up and takes it
// down again, whatever becomes of the third, which has the tests. So the machine is
// left as it was found, also after a panic, a timeout or Ctrl-C.
//
// E2E_KEEP=1 uses a cluster that is up and leaves it up: for working on the tests.
package e2e
