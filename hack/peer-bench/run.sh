#!/usr/bin/env bash
# Measures the model of the public moq-net crate and ours on the same shapes, in
# turn, and prints the ratio of their medians. Without cargo it says so and skips.
# ROUNDS (default 3), FILTER (part of a name), RECORD (file for the results). A round
# takes a minute on a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v cargo >/dev/null; then
	echo "peer-bench: skipped: there is no cargo on this machine, so the moq-net crate cannot be built"
	exit 0
fi
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/moqrelay/peers/peer-bench}
if ! CARGO_TARGET_DIR=$target cargo build --release --locked --quiet --manifest-path hack/peer-bench/Cargo.toml; then
	echo "peer-bench: skipped: cargo could not build the moq-net crate; what it refused is above"
	exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
CGO_ENABLED=0 go test -trimpath -c -o "$scratch/model.test" ./relay/model
CGO_ENABLED=0 go build -C hack/benchmarks -trimpath -o "$scratch/benchmarks" .
load=$(cut -d' ' -f1-3 /proc/loadavg)
for round in $(seq "${ROUNDS:-3}"); do
	echo "peer-bench: round $round, load $(cut -d' ' -f1 /proc/loadavg)" >&2
	"$target/release/peer-bench" "${FILTER:-}" >>"$scratch/theirs"
	"$scratch/model.test" -test.run '^$' -test.bench "${FILTER:-Group(ReadFrames|RelayFrames|Paced|Contended)}" \
		-test.benchtime 20ms >"$scratch/round"
	grep -F "${FILTER:-Benchmark}" "$scratch/round" >>"$scratch/ours" || true
done
export LOAD=$load COMMIT DATE MACHINE
COMMIT=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
DATE=$(date -u +%Y-%m-%dT%H:%M:%SZ)
MACHINE="$(nproc) × $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(go env GOVERSION), $(rustc --version | cut -d' ' -f1,2), moq-net $(sed -n 's/^moq-net = "=\(.*\)"/\1/p' hack/peer-bench/Cargo.toml)"
"$scratch/benchmarks" peers "$scratch/ours" "$scratch/theirs" ${RECORD:+"$RECORD"}
