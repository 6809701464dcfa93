#!/bin/sh
# Fails when a generated file is not what hack/generate.sh would write now. It
# regenerates in a copy, so the work tree stays as it is.
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -cf - go.mod go.sum api controllers config charts hack relay/config relay/preflight relay/status | tar -xf - -C "$copy"
hack/generate.sh "$copy"
status=0
for path in api config charts; do
	diff -ru "$path" "$copy/$path" || status=1
done
if [ $status != 0 ]; then
	echo "generated files are out of date: run make generate" >&2
fi
exit $status
