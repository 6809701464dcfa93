#!/bin/sh
# Regenerates everything that is made from the Go types and their markers:
# deepcopy, CRD, RBAC, and the chart's copies of the last two.
#
#   hack/generate.sh [DIR]     writes below DIR, a copy of the repository; default: here
#
# controller-gen comes from hack/tools/go.mod and is built into bin/ first, with
# the flags that let it share the build cache with the operator.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
out=${1:-$root}
CGO_ENABLED=0 GOBIN="$root/bin" go -C hack/tools install -trimpath sigs.k8s.io/controller-tools/cmd/controller-gen

cd "$out"
mkdir -p config/crd/bases config/rbac charts/moq-relay-operator/templates
"$root/bin/controller-gen" \
	object:headerFile=hack/boilerplate.go.txt \
	crd rbac:roleName=moq-relay-operator \
	paths=./api/... paths=./controllers/... \
	output:crd:artifacts:config=config/crd/bases \
	output:rbac:artifacts:config=config/rbac

# The chart's copies differ from config/ in labels, which kustomize adds there, and
# in the namespace. The CRD is a template so that an upgrade of the chart upgrades
# it; the keep policy saves every MoQRelay from an uninstall.
chart=charts/moq-relay-operator/templates
template() {
	echo '{{- /* Made by hack/generate.sh from config/; do not edit. */ -}}'
	sed -e 's|^metadata:$|&\n  labels:\n    {{- include "labels" . \| nindent 4 }}|' \
		-e 's|namespace: moq-relay-operator$|namespace: {{ .Release.Namespace }}|' \
		-e 's|^  annotations:$|&\n    helm.sh/resource-policy: keep|' "$1"
}
{
	echo '{{- if .Values.crds.enabled }}'
	template config/crd/bases/moqrelay.io_moqrelays.yaml
	echo '{{- end }}'
} >$chart/crd.yaml
template config/rbac/role.yaml >$chart/role.yaml
template config/rbac/role_binding.yaml >$chart/role_binding.yaml
