#!/bin/sh
# Installs the Debian packages named, as far as they are missing; where that cannot
# be done here it says which command would.
#
#   hack/deps.sh PACKAGE...
set -eu
missing=
for package in "$@"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "missing Debian packages; install them with: apt-get install$missing" >&2
	exit 1
fi
echo "installing Debian packages:$missing" >&2
# One at a time: several targets may want packages at once.
exec 9>/tmp/moqrelay-apt.lock
flock 9
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	exit 1
fi
