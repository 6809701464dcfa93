#!/bin/bash
# Builds both images of the Dockerfile for one architecture, offline, from what
# "make build" has put into dist/, and writes
#
#   dist/images/moq-relay-operator.tar, dist/images/moq-relay.tar   docker archives
#   dist/images/names                                               manager=NAME, relay=NAME
#
# A name's tag is the hash of the image's content, so that other content rolls the
# pods and the same content is not built twice.
#
#   hack/images.sh [ARCH]
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-$(go env GOARCH)}
version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
registry=moqrelay.test
out=dist/images
mkdir -p "$out"

# Nothing of buildah's own stays: its storage is a folder of this run.
storage=$(mktemp -d)
trap 'rm -rf "$storage"' EXIT
run_buildah() {
	buildah --root "$storage/root" --runroot "$storage/run" --storage-driver vfs "$@"
}

# expect NAME FORMAT WANT: the image has what the Dockerfile says.
expect() {
	local got
	got=$(run_buildah inspect --type image --format "$2" "$1")
	[ "$got" = "$3" ] || { echo "image $1: $2 is \"$got\", want \"$3\"" >&2; exit 1; }
}

check() { # NAME TITLE ENTRYPOINT
	expect "$1" '{{.OCIv1.Config.User}}' 65532:65532
	expect "$1" '{{.OCIv1.Config.Entrypoint}}' "[$3]"
	expect "$1" '{{.OCIv1.Architecture}}' "$arch"
	expect "$1" '{{index .OCIv1.Config.Labels "org.opencontainers.image.title"}}' "$2"
	expect "$1" '{{index .OCIv1.Config.Labels "org.opencontainers.image.licenses"}}' Apache-2.0
}

image() { # TARGET TITLE BINARY
	local binary=dist/linux/$arch/$3 tar=$out/$2.tar tag name
	[ -f "$binary" ] || { echo "$binary is missing: run make build ARCHS=$arch first" >&2; exit 1; }
	tag=$(cat Dockerfile dist/ca-certificates.crt "$binary" hack/images.sh | sha256sum | cut -c1-12)
	name=$registry/$2:$tag
	if ! { [ -f "$tar" ] && grep -qsx "$1=$name" "$out/names"; }; then
		rm -f "$tar" "$out/names" # until both are there again
		# The build chroots because a machine in a sandbox has no other isolation;
		# there is no RUN step that would run in it.
		run_buildah build --quiet --isolation chroot --platform "linux/$arch" --target "$1" \
			--build-arg "VERSION=$version" --tag "$name" . >/dev/null
		check "$name" "$2" "/$3"
		run_buildah push --quiet "$name" "docker-archive:$tar.part:$name"
		mv "$tar.part" "$tar"
	fi
	echo "$1=$name"
}

image manager moq-relay-operator manager >"$out/names.new"
image relay moq-relay moq-relay >>"$out/names.new"
mv "$out/names.new" "$out/names"
cat "$out/names"
