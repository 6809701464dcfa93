#!/usr/bin/env bash
# Runs every fuzz target that the go command sees, for TIME each, and sums up.
#
#   hack/fuzz.sh TIME [PACKAGES]      packages as the go command names them; default: all
#
# What it finds stays: an input that fails becomes a file below the package's
# testdata/fuzz, which every test run reads from then on (commit it with the fix),
# and inputs that reach new code stay in the go command's cache for the next run,
# until "go clean -fuzzcache". FUZZ_SKIP is a regular expression of "PACKAGE TARGET"
# that are left out, FUZZ_WORKERS how many inputs are tried at a time (default: one
# for each processor).
#
# FUZZ_CONTINUE=1 goes on with a campaign: what a target has had since the last
# commit that changed its package counts, and one that has had TIME is left out. The
# seconds are kept in the file campaign in the cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
shift || true
workers=${FUZZ_WORKERS:+-parallel=$FUZZ_WORKERS}
state=${XDG_CACHE_HOME:-$HOME/.cache}/moqrelay/fuzz/campaign # lines of PACKAGE TARGET COMMIT SECONDS
export CGO_ENABLED=0 # one build cache with everything else
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# targets prints "PACKAGE TARGET" for each.
targets() {
	go list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}' "$@" |
		while read -r package file; do
			[ -z "$file" ] || sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$package \1|p" "$file"
		done | sort -u
}

# seconds is a time such as 10s, 5m or 1h2m3s as a number.
seconds() {
	awk -v t="$1" 'BEGIN {
		of["h"] = 3600; of["m"] = 60; of["s"] = 1
		while (match(t, /^[0-9]+[hms]/)) { sum += substr(t, 1, RLENGTH - 1) * of[substr(t, RLENGTH, 1)]; t = substr(t, RLENGTH + 1) }
		print sum + 0
	}'
}

# commit is the last one that changed a package.
commit() { git log -1 --format=%h -- "$(go list -f '{{.Dir}}' "$1")"; }

# had prints how many seconds of the campaign a target has had, by PACKAGE TARGET COMMIT.
had() { awk -v key="$*" '$1 " " $2 " " $3 == key { sum += $4 } END { print sum + 0 }' "$state"; }

found=$(targets "${@:-./...}")
[ -n "$found" ] || { echo "no fuzz target in ${*:-./...}" >&2; exit 1; }
failed=() count=0
if [ -n "${FUZZ_CONTINUE:-}" ]; then mkdir -p "$(dirname "$state")" && touch "$state"; fi
while read -r package target; do
	if [ -n "${FUZZ_SKIP:-}" ] && [[ "$package $target" =~ $FUZZ_SKIP ]]; then continue; fi
	for_this=$time
	if [ -n "${FUZZ_CONTINUE:-}" ]; then
		at=$(commit "$package")
		left=$(($(seconds "$time") - $(had "$package" "$target" "$at")))
		[ "$left" -gt 0 ] || continue
		for_this=${left}s
	fi
	echo "== $package $target"
	count=$((count + 1))
	result=0
	# shellcheck disable=SC2086 # no workers are no argument
	go test -trimpath -run '^$' -fuzz "^$target\$" -fuzztime "$for_this" $workers "$package" </dev/null 2>&1 | tee "$log" || result=1
	if [ -n "${FUZZ_CONTINUE:-}" ]; then
		elapsed=$(sed -n 's/^fuzz: elapsed: \([0-9hms]*\), execs.*/\1/p' "$log" | tail -n 1)
		echo "$package $target $at $(seconds "$elapsed")" >>"$state"
	fi
	[ "$result" != 0 ] || continue
	# When the time is up amid a slow input, Go may call its own end a failure
	# ("context deadline exceeded"), and has no input to show for it.
	if grep -qx '    context deadline exceeded' "$log" && ! grep -qE "Failing input|panic:|fuzzing process|FAIL: $target/" "$log"; then
		echo "   (the time was up amid an input; nothing was found)"
		continue
	fi
	failed+=("$package $target")
done <<<"$found"

if [ -n "${FUZZ_CONTINUE:-}" ]; then
	echo "== the campaign so far, in seconds:"
	while read -r package target; do
		printf '%8d %s %s\n' "$(had "$package" "$target" "$(commit "$package")")" "$package" "$target"
	done <<<"$found"
fi
echo "== $count fuzz targets, $time each: ${#failed[@]} with findings"
if [ ${#failed[@]} -gt 0 ]; then
	printf '   %s\n' "${failed[@]}" >&2
	git status --short -- '*testdata/fuzz*' >&2 || true
	exit 1
fi
