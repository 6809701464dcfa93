// Watches a track of self-checking frames and checks each.
//
//   node watch.mjs URL [--protocol qmux-02.moq-lite-05] [--broadcast load] [--track data]
//       [--frames 200] [--latency 30000]
//
// It prints "frame GROUP FRAME SIZE SHA256" for each frame, and ends well when it
// has seen --frames of them.
import { parseArgs } from "node:util";
import { checkPayload, sha256 } from "./payload.mjs";
import { announced, connect, integer, run, say } from "./session.mjs";

const text = (value) => ({ type: "string", default: value });

run(async () => {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: { protocol: text(""), broadcast: text("load"), track: text("data"), frames: text("200"), latency: text("30000") },
	});
	const wanted = integer(values, "frames", 1);
	const latencyMax = integer(values, "latency", 0);
	const connection = await connect(positionals[0], values.protocol);
	await announced(connection, values.broadcast);
	const track = connection.consume(values.broadcast).track(values.track).subscribe({ latencyMax });
	say("watching", connection.version, connection.transport);

	let seen = 0;
	const { promise: done, resolve, reject } = Promise.withResolvers();
	const readGroup = async (group) => {
		for (let next; (next = await group.readFrameSequence()); ) {
			await checkPayload(next.payload, group.sequence, next.sequence);
			say("frame", group.sequence, next.sequence, next.payload.length, await sha256(next.payload));
			if (++seen === wanted) resolve();
		}
	};
	(async () => {
		const reading = [];
		for (let group; (group = await track.recvGroup()); ) reading.push(readGroup(group).catch(reject));
		await Promise.all(reading);
		reject(new Error(`the track ended after ${seen} of ${wanted} frames`));
	})().catch(reject);
	await done;
	say("watched", seen);
	track.close();
	connection.close();
});
