# The cluster of the demo: our own, or the existing one of $KUBECONFIG. Sourced by
# demo.sh.

# The label of what the demo makes in a cluster; nothing else is changed or removed.
mark=moqrelay.io/demo=true

own_cluster() { [ "${DEMO_CLUSTER:-own}" = own ]; }

check_settings() {
	case "${DEMO_CLUSTER:-own}" in
	own)
		[ "$(id -u)" = 0 ] || refuse "a cluster on this machine needs root: run make demo as root, or use DEMO_CLUSTER=existing"
		[ -z "${DEMO_REGISTRY:-}" ] || refuse "DEMO_REGISTRY has an effect only with DEMO_CLUSTER=existing"
		;;
	existing) ;;
	*) refuse "DEMO_CLUSTER is \"$DEMO_CLUSTER\": own (the default) and existing are possible" ;;
	esac
}

refuse() {
	echo "$*" >&2
	exit 2
}

# kubernetes_go builds a program of the cluster's module, which has its own versions.
kubernetes_go() { CGO_ENABLED=0 go build -C hack/cluster -trimpath -o "$PWD/bin/$1" "$2"; }

build_cluster() {
	kubernetes_go cluster .
	bin/cluster build
}

# find_kubectl sets KUBECONFIG and kubectl_program: the cluster's own, never what the
# machine has. For an existing cluster it is built alone unless all is there.
find_kubectl() {
	mkdir -p bin
	if own_cluster; then
		kubectl_program=$(bin/cluster bin)/kubectl
		KUBECONFIG=$(bin/cluster kubeconfig)
	else
		kubernetes_go cluster .
		kubectl_program=$(bin/cluster bin)/kubectl
		if [ ! -x "$kubectl_program" ]; then
			kubernetes_go kubectl k8s.io/kubernetes/cmd/kubectl
			kubectl_program=$PWD/bin/kubectl
		fi
		KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config}
	fi
	export KUBECONFIG
	own_cluster || find_context
}

kubectl() { "$kubectl_program" "$@"; }

# find_context sets context, and says early what would fail late.
find_context() {
	context=$(kubectl config current-context) || refuse "DEMO_CLUSTER=existing: $KUBECONFIG names no current context"
	kubectl --request-timeout=20s version >/dev/null || refuse "DEMO_CLUSTER=existing: the cluster of context $context does not answer"
}

# images_way wants a way for images to the nodes of an existing cluster.
images_way() {
	find_kubectl
	case "$context" in
	kind-*) [ -n "${DEMO_REGISTRY:-}" ] || command -v kind >/dev/null || refuse "the context is $context, but there is no program kind to load images with" ;;
	*) [ -n "${DEMO_REGISTRY:-}" ] || refuse "the nodes of context $context need a registry to pull the images from: set DEMO_REGISTRY=HOST/PATH" ;;
	esac
}

# read_names sets manager_image and relay_image to what pods are to pull.
read_names() {
	manager_image=$(sed -n 's/^manager=//p' dist/images/names)
	relay_image=$(sed -n 's/^relay=//p' dist/images/names)
	if [ -n "${DEMO_REGISTRY:-}" ]; then
		manager_image=${DEMO_REGISTRY%/}/${manager_image##*/}
		relay_image=${DEMO_REGISTRY%/}/${relay_image##*/}
	fi
}

# give_images brings the images to where the nodes find them.
give_images() {
	if own_cluster; then
		bin/cluster load "$PWD/dist/images/moq-relay-operator.tar" "$PWD/dist/images/moq-relay.tar"
	elif [ -n "${DEMO_REGISTRY:-}" ]; then
		push dist/images/moq-relay-operator.tar "$manager_image"
		push dist/images/moq-relay.tar "$relay_image"
	else
		for archive in dist/images/moq-relay-operator.tar dist/images/moq-relay.tar; do
			kind load image-archive "$archive" --name "${context#kind-}"
		done
	fi
}

# push ARCHIVE NAME. Who needs a login has made it with "buildah login".
push() {
	local storage id
	storage=$(mktemp -d)
	id=$(buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs pull --quiet "docker-archive:$1")
	echo "pushing $2"
	buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs push --quiet "$id" "docker://$2"
	rm -rf "$storage"
}

# ours KIND NAME: whether the demo made it.
ours() { [ "$(kubectl get "$1" "$2" --ignore-not-found -o jsonpath='{.metadata.labels.moqrelay\.io/demo}')" = true ]; }

exists() { [ -n "$(kubectl get "$1" "$2" --ignore-not-found -o name)" ]; }

# make_namespace NAME LABEL
make_namespace() {
	if ! exists namespace "$1"; then
		kubectl create namespace "$1"
		kubectl label namespace "$1" "$mark" "$2"
	elif ! ours namespace "$1"; then
		echo "the namespace $1 exists and is not the demo's: the demo would change what is in it" >&2
		return 1
	fi
}

# remove_from_existing removes what bears the mark, in the order in which the
# operator can still say good-bye.
remove_from_existing() {
	local others
	if ours namespace "$namespace"; then
		kubectl delete namespace "$namespace" --timeout=120s
	fi
	if ours crd moqrelays.moqrelay.io; then
		others=$(kubectl get moqrelays --all-namespaces -o jsonpath='{range .items[*]}  {.metadata.namespace}/{.metadata.name}{"\n"}{end}')
		[ -z "$others" ] || refuse "the operator stays, because there are MoQRelays that the demo did not make; delete them and call this again:
$others"
		manifest | kubectl delete --ignore-not-found -f -
	fi
	if ours namespace "$operator_namespace"; then
		kubectl delete namespace "$operator_namespace" --timeout=120s
	fi
	echo "what the demo made in the cluster of context $context is gone; images stay on its nodes and in registries"
}
