#!/bin/bash
# The demo: Kubernetes on this machine, the operator, a relay pod, and clients that
# stream through it. With a cluster of your own instead, DEMO_CLUSTER=existing.
#
#   hack/demo.sh up      make demo        DEMO_ONCE=1: end after ten watched seconds
#   hack/demo.sh down    make demo-down   remove all that the demo made
#
#   DEMO_CLUSTER=existing   the cluster of $KUBECONFIG (default ~/.kube/config)
#   DEMO_REGISTRY=HOST/PATH where images are pushed for it; a context kind-* needs none
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/demo/steps.sh
. hack/demo/steps.sh
# shellcheck source=hack/demo/cluster.sh
. hack/demo/cluster.sh
# shellcheck source=hack/demo/stream.sh
. hack/demo/stream.sh

operator_namespace=moq-relay-operator
namespace=moq-demo
relay=demo

# prepare does all that needs no cluster. Compiling Kubernetes comes first: it says
# how long it takes before it starts.
prepare() {
	step "Debian packages" packages
	own_cluster && step "Kubernetes, compiled" --show build_cluster
	step "kubectl" find_kubectl
	own_cluster || step "a way for images to the nodes" images_way
	step "the public JavaScript client" hack/interop-deps.sh
	step "both images" --show make --silent images
	step "the renderer of the chart" make bin/manifests
}

packages() {
	local list="buildah ca-certificates"
	own_cluster && list="$list containerd runc containernetworking-plugins nftables iproute2"
	# shellcheck disable=SC2086 # a list of words
	hack/deps.sh $list
}

# run is the rest; on our own cluster it holds the lock that keeps others from
# taking the cluster away.
run() {
	own_cluster && step "the cluster" --show bin/cluster up
	find_kubectl
	read_names
	step "the images, where the pods find them" --show give_images
	step "CRD and operator" install
	step "a MoQRelay: config/samples/moqrelay_demo.yaml" --show relay_ready
	show
	stream
}

# install applies what the chart renders, and marks what it makes as the demo's. An
# operator of somebody else is left alone.
install() {
	if ! own_cluster && exists crd moqrelays.moqrelay.io && ! ours crd moqrelays.moqrelay.io; then
		echo "this cluster has the MoQRelay CRD already, and not from a demo: the demo would change it" >&2
		return 1
	fi
	make_namespace "$operator_namespace" pod-security.kubernetes.io/enforce=restricted
	manifest | kubectl apply --server-side --force-conflicts -f -
	kubectl label --overwrite crd moqrelays.moqrelay.io "$mark"
	kubectl wait --for=condition=Established --timeout=60s crd/moqrelays.moqrelay.io
	kubectl -n "$operator_namespace" rollout status --timeout=120s deployment/moq-relay-operator
}

# manifest is what the chart installs.
manifest() {
	bin/manifests helm charts/moq-relay-operator "$operator_namespace" "images.manager=${manager_image:-}" "images.relay=${relay_image:-}"
}

# relay_ready applies the sample and waits until its pods run the present image and
# serve, telling each change of its condition Ready.
relay_ready() {
	make_namespace "$namespace" moqrelay.io/host-access=allowed
	kubectl -n "$namespace" apply --server-side -f config/samples/moqrelay_demo.yaml
	# The program itself: the function would be one more shell in the background.
	"$kubectl_program" -n "$namespace" get moqrelay "$relay" --watch -o jsonpath="$ready_line" 2>/dev/null | changes &
	local failed=0
	{
		kubectl -n "$namespace" wait --for=jsonpath='{.status.image}'="$relay_image" --timeout=60s "moqrelay/$relay" >/dev/null &&
			kubectl -n "$namespace" rollout status --timeout=120s "deployment/$relay" >/dev/null &&
			kubectl -n "$namespace" wait --for=condition=Ready --timeout=60s "moqrelay/$relay" >/dev/null
	} || failed=1
	stop_children
	wait
	[ $failed = 0 ] || explain
	return $failed
}
ready_line='{.status.conditions[?(@.type=="Ready")].reason}: {.status.conditions[?(@.type=="Ready")].message}{"\n"}'

# changes prints lines that differ from the one before.
changes() {
	local line last=": "
	while read -r line; do
		[ "$line" = "$last" ] || echo "$line"
		last=$line
	done
}

# explain shows why the relay is not ready.
explain() {
	echo "the relay did not become ready; its conditions:"
	kubectl -n "$namespace" get moqrelay "$relay" -o jsonpath='{range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
	kubectl -n "$namespace" get pods -o wide || true
	echo "the operator's last words:"
	kubectl -n "$operator_namespace" logs --tail=20 deployment/moq-relay-operator || true
}

show() {
	echo
	kubectl -n "$namespace" get moqrelays -o wide
	echo
	echo "endpoints of the relay, to paste into a client:"
	kubectl -n "$namespace" get moqrelay "$relay" -o jsonpath='{range .status.endpoints[*]}  {.transport}{"\t"}{.url}{"\n"}{end}'
	echo
	echo "to look around:"
	echo "  export KUBECONFIG=$KUBECONFIG"
	echo "  $kubectl_program -n $namespace describe moqrelay $relay"
	echo
}

down() {
	if own_cluster; then
		kubernetes_go cluster .
		bin/cluster down
		echo "kept, as they only save time: the images in dist/ and Kubernetes' programs in ${MOQRELAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/moqrelay}"
	else
		find_kubectl
		make --silent bin/manifests
		remove_from_existing
	fi
}

case "${1:-}" in
up)
	check_settings
	DEMO_STARTED=$EPOCHREALTIME
	export DEMO_STARTED
	prepare
	if own_cluster; then exec bin/cluster hold --as "make demo" -- "$0" run; fi
	run
	;;
run) run ;;
down)
	check_settings
	down
	;;
*)
	echo "usage: hack/demo.sh up|down" >&2
	exit 2
	;;
esac
