#!/usr/bin/env bash
# Builds the public Rust relay from the crates registry, without what no measurement
# uses: iroh, mDNS, Unix sockets. 0.17.8 is the newest that its lock file let us
# build. The load generator moq-bench is not published there.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v cargo >/dev/null; then
	echo "peer-relay: skipped: there is no cargo on this machine"
	exit 0
fi
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/moqrelay/peers/target} nice cargo install --locked \
	moq-relay --version 0.17.8 --no-default-features --features noq,websocket --root bin/peer
