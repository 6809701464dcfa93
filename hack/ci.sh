#!/usr/bin/env bash
# All that CI checks, from a clean checkout on a machine that may have nothing
# built. Compiling Kubernetes takes longest, so it begins first, at low priority,
# beside everything that does not need it.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p dist
log=$PWD/dist/cluster-build.log

started=$SECONDS
step() {
	local from=$SECONDS
	echo "=== $*"
	"$@"
	echo "=== $* took $((SECONDS - from)) s ($(((SECONDS - started) / 60)) min in all, load $(cut -d' ' -f1 /proc/loadavg))"
}

step hack/deps.sh ca-certificates curl procps chromium containerd runc containernetworking-plugins nftables iproute2 buildah
# A group of its own, so that a failure elsewhere ends the compilers too.
setsid nice -n 19 make cluster-build >"$log" 2>&1 &
kubernetes=$!
trap 'kill -- -$kubernetes 2>/dev/null || true' EXIT

step hack/interop-deps.sh
step make test-relay
step make test-interop

echo "=== waiting for Kubernetes to be compiled"
if ! wait $kubernetes; then
	tail -n 40 "$log" >&2
	exit 1
fi
trap - EXIT
tail -n 3 "$log"

step make load # when nothing else runs: it is about what arrives
step make test-narrow
step make test-mesh
step make test-operator
step make test-kube
step make lint-fast
step make verify
step make test-e2e
step make build
echo "=== all of it took $(((SECONDS - started) / 60)) min"
