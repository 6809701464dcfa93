// Watches a track of self-checking frames and checks each.
//
//   node watch.mjs URL [--protocol qmux-02.moq-lite-05] [--broadcast load] [--track data]
//       [--frames 200] [--latency 30000] [--viewers 1]
//
// Each viewer has a connection of its own. For each frame it prints
// "frame GROUP FRAME SIZE SHA256 VIEWER", and it ends well when each viewer has
// seen --frames of them.
import { parseArgs } from "node:util";
import { checkPayload, sha256 } from "./payload.mjs";
import { announced, connect, integer, run, say } from "./session.mjs";

const text = (value) => ({ type: "string", default: value });

async function view(viewer, url, values) {
	const wanted = integer(values, "frames", 1);
	const latencyMax = integer(values, "latency", 0);
	const connection = await connect(url, values.protocol);
	await announced(connection, values.broadcast);
	const track = connection.consume(values.broadcast).track(values.track).subscribe({ latencyMax });
	say("watching", connection.version, connection.transport);

	let seen = 0;
	const { promise: enough, resolve, reject } = Promise.withResolvers();
	const readGroup = async (group) => {
		for (let next; (next = await group.readFrameSequence()); ) {
			await checkPayload(next.payload, group.sequence, next.sequence);
			say("frame", group.sequence, next.sequence, next.payload.length, await sha256(next.payload), viewer);
			if (++seen === wanted) resolve();
		}
	};
	const readGroups = async () => {
		const reading = [];
		for (let group; (group = await track.recvGroup()); ) reading.push(readGroup(group).catch(reject));
		await Promise.all(reading);
		throw new Error(`viewer ${viewer}: the track ended after ${seen} of ${wanted} frames`);
	};
	readGroups().catch(reject);
	await enough;
	track.close();
	connection.close();
}

run(async () => {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: {
			protocol: text(""), broadcast: text("load"), track: text("data"),
			frames: text("200"), latency: text("30000"), viewers: text("1"),
		},
	});
	const viewers = integer(values, "viewers", 1);
	await Promise.all(Array.from({ length: viewers }, (_, viewer) => view(viewer, positionals[0], values)));
	say("watched");
});
