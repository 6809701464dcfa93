# The main job: a clock is published and watched through the relay pod. Sourced by
# demo.sh.

# label NAME: puts a name before each line.
label() { sed -u "s/^/$(printf "%-14s" "$1")/"; }

# stream publishes with the public JavaScript client and watches with it and, over
# QUIC, with moq-load. It ends after ten watched seconds with DEMO_ONCE=1, else when
# it is interrupted; that a client ends before is a failure.
stream() {
	local url frames=0 limit=0 load publisher viewer quic
	url=$(kubectl -n "$namespace" get moqrelay "$relay" -o jsonpath='{.status.endpoints[?(@.transport=="WebTransport")].url}')
	load=dist/linux/$(go env GOARCH)/moq-load
	if [ -n "${DEMO_ONCE:-}" ]; then frames=10 limit=60; fi # a frame each second
	url=${url%% *} # of several nodes the first
	echo "a clock through the relay: published by @moq/net in Node, watched by a second one,"
	echo "and by moq-load over QUIC (each frame with its latency)"
	node test/interop/js/clock.mjs publish "$url" --rate 1 > >(label publisher) 2>&1 &
	publisher=$!
	timeout "$limit" node test/interop/js/clock.mjs watch "$url" --ticks "$frames" > >(label "web viewer") 2>&1 &
	viewer=$!
	timeout "$limit" "$load" sub "$url" --transport quic --broadcast clock --track seconds --print --frames "$frames" > >(label "quic viewer") 2>&1 &
	quic=$!
	if [ -n "${DEMO_ONCE:-}" ]; then once; else until_interrupted; fi
}

# once ends well when both viewers have.
once() {
	local failed=
	wait "$viewer" || failed="the JavaScript viewer failed"
	wait "$quic" || failed="${failed:+$failed; }moq-load failed"
	stop_children
	wait
	if [ -n "$failed" ]; then
		echo "$failed" >&2
		exit 1
	fi
	echo
	echo "watched for ten seconds; all of it took $(seconds_since "$DEMO_STARTED") s"
	stays
}

until_interrupted() {
	echo "all of that took $(seconds_since "$DEMO_STARTED") s; Ctrl-C ends the clients"
	trap interrupted INT TERM
	wait -n "$publisher" "$viewer" "$quic" || true
	echo "a client has ended by itself, which none should" >&2
	exit 1
}

interrupted() {
	trap - INT TERM
	stop_children
	wait
	echo
	stays
	exit 0
}

stays() {
	local where=
	own_cluster || where=" DEMO_CLUSTER=existing"
	echo "the relay stays up: \"make demo$where\" streams again in seconds, \"make demo-down$where\" removes everything"
}
