// Publishes a track of self-checking frames.
//
//   node publish.mjs URL [--protocol qmux-02.moq-lite-05] [--broadcast load] [--track data]
//       [--groups 20] [--frames 10] [--min 1] [--max 307200] [--hold 0,105]
//
// At each count of frames in --hold it waits for a line on standard input. It
// prints "frame GROUP FRAME SIZE SHA256" for each frame and ends the track
// when standard input ends.
import { parseArgs } from "node:util";
import { Broadcast, Time } from "@moq/net";
import { frameSize, makePayload, sha256 } from "./payload.mjs";
import { connect, integer, run, say, stdinLines } from "./session.mjs";

const text = (value) => ({ type: "string", default: value });

run(async () => {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: {
			protocol: text(""), broadcast: text("load"), track: text("data"), hold: text(""),
			groups: text("20"), frames: text("10"), min: text("1"), max: text("307200"),
		},
	});
	const [groups, frames] = [integer(values, "groups", 1), integer(values, "frames", 1)];
	const [min, max] = [integer(values, "min", 1), integer(values, "max", 1)];
	const holds = new Set(values.hold.split(",").filter(Boolean).map(Number));
	const line = stdinLines();

	const connection = await connect(positionals[0], values.protocol);
	const broadcast = new Broadcast.Producer();
	const track = broadcast.createTrack(values.track, { latencyMax: 30_000, timescale: Time.Timescale.MICRO });
	connection.publish(values.broadcast, broadcast);
	say("publishing", connection.version, connection.transport);

	for (let g = 0, n = 0; g < groups; g++) {
		const group = track.appendGroup();
		for (let f = 0; f < frames; f++, n++) {
			if (holds.has(n)) {
				say("held", n);
				await line();
			}
			const micros = Date.now() * 1000;
			const payload = await makePayload(g, f, frameSize(n, groups * frames, min, max), micros);
			say("frame", g, f, payload.length, await sha256(payload));
			group.writeFrame({ payload, timestamp: Time.Timestamp.fromMicros(micros) });
		}
		group.close();
	}
	say("published");
	while ((await line()) !== undefined);
	track.close(); // not before: a viewer of this library drops what it has not read when its track ends
	connection.close();
});
