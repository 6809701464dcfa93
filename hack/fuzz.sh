#!/usr/bin/env bash
# Runs every fuzz target that the go command sees, for TIME each, and sums up.
#
#   hack/fuzz.sh TIME [PACKAGES]      packages as the go command names them; default: all
#
# What it finds stays: an input that fails becomes a file below the package's
# testdata/fuzz, which every test run reads from then on (commit it with the fix),
# and inputs that reach new code stay in the go command's cache for the next run,
# until "go clean -fuzzcache". FUZZ_SKIP is a regular expression of "PACKAGE TARGET"
# that are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
shift || true
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

found=$(targets "${@:-./...}")
[ -n "$found" ] || { echo "no fuzz target in ${*:-./...}" >&2; exit 1; }
failed=() count=0
while read -r package target; do
	if [ -n "${FUZZ_SKIP:-}" ] && [[ "$package $target" =~ $FUZZ_SKIP ]]; then continue; fi
	echo "== $package $target"
	count=$((count + 1))
	if go test -trimpath -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null 2>&1 | tee "$log"; then continue; fi
	# When the time is up amid a slow input, Go may call its own end a failure
	# ("context deadline exceeded"), and has no input to show for it.
	if grep -qx '    context deadline exceeded' "$log" && ! grep -qE "Failing input|panic:|fuzzing process|FAIL: $target/" "$log"; then
		echo "   (the time was up amid an input; nothing was found)"
		continue
	fi
	failed+=("$package $target")
done <<<"$found"

echo "== $count fuzz targets, $time each: ${#failed[@]} with findings"
if [ ${#failed[@]} -gt 0 ]; then
	printf '   %s\n' "${failed[@]}" >&2
	git status --short -- '*testdata/fuzz*' >&2 || true
	exit 1
fi
