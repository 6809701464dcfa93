#!/bin/sh
# Installs the public JavaScript clients that the interop tests and the demo run:
# exactly those of test/interop/js/package-lock.json, and only when they changed.
set -eu
cd "$(dirname "$0")/.."
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	hack/deps.sh nodejs npm
fi
cd test/interop/js
major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
if [ "$major" -lt 18 ]; then
	echo "Node.js 18 or newer is needed for the JavaScript clients; this one is $(node --version)" >&2
	exit 1
fi
# Tests and the demo may come here at once.
exec 9>.install.lock
flock 9
want=$(cat package.json package-lock.json | sha256sum)
[ "$(cat node_modules/.installed 2>/dev/null || true)" = "$want" ] && exit 0
echo "installing the JavaScript clients (npm ci in test/interop/js)" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Nothing that we use needs an install script.
if ! npm ci --ignore-scripts --no-fund --no-audit >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	exit 1
fi
echo "$want" >node_modules/.installed
