#!/usr/bin/env bash
# Runs every fuzz target for a time each.
#
#   hack/fuzz.sh TIME
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
grep -rl --include='*_test.go' '^func Fuzz' relay | sort | while read -r file; do
	package=./$(dirname "$file")
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" </dev/null
	done
done
