// Package kube tests the operator against a real API server: etcd and
// kube-apiserver run, a kubelet and the controller manager do not. So pods and
// the Deployment's status are written by the tests, in the way that a kubelet and
// the controllers write them, and nothing collects garbage.
//
// The operator under test has the rights of config/rbac and no others, and counts
// its requests.
//
// The tests have the build tag kube, and need KUBEBUILDER_ASSETS: the folder of
// the programs etcd, kube-apiserver and kubectl.
package kube
