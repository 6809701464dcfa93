# Steps: each is named before it starts and shows how long it took. Sourced by demo.sh.

# seconds_since START: with one decimal.
seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

# step TITLE [--show] COMMAND...: what the command prints is shown, with --show, or
# kept and shown when it fails. It runs in a shell of its own, so that it sets no
# variable. One that fails ends the demo: step must not be called in a condition,
# because there the shell would go on after a failure in it.
step() {
	local started=$EPOCHREALTIME
	step_title=$1
	shift
	if [ "$1" = --show ]; then
		shift
		echo "== $step_title"
		"$@" 2>&1 | sed -u 's/^/   /'
	else
		printf '== %-52s' "$step_title"
		step_said=$(mktemp)
		("$@") >"$step_said" 2>&1
		rm -f "$step_said"
		step_said=
		printf '%7s s\n' "$(seconds_since "$started")"
		step_title=
		return
	fi
	printf '   %-52s%7s s\n' "that took" "$(seconds_since "$started")"
	step_title=
}
step_title= step_said=

# ended is the end of every run, a good one too.
ended() {
	local status=$?
	trap - EXIT INT TERM
	stop_children
	if [ -n "$step_said" ] && [ -f "$step_said" ]; then
		echo
		cat "$step_said"
		rm -f "$step_said"
	fi
	[ -z "$step_title" ] || echo "the demo ended in the step \"$step_title\"; \"make demo-down\" removes what it has made so far" >&2
	exit $status
}
trap ended EXIT
trap 'exit 130' INT TERM

# stop_children ends the programs that this shell has started in the background.
stop_children() {
	local pids
	pids=$(jobs -p)
	# shellcheck disable=SC2086 # a list of words
	[ -z "$pids" ] || kill $pids 2>/dev/null || true
}
