// Fetches groups of a track of self-checking frames, one after another, and checks
// each frame.
//
//   node fetch.mjs URL --groups 3,0,99 [--protocol qmux-02.moq-lite-05]
//       [--broadcast load] [--track data] [--viewers 1]
//
// Each viewer has a connection of its own. For each frame it prints
// "frame GROUP FRAME SIZE SHA256 VIEWER", and "fetched GROUP FRAMES VIEWER" at the
// end of each group, or "refused GROUP VIEWER".
import { parseArgs } from "node:util";
import { checkPayload, sha256 } from "./payload.mjs";
import { announced, connect, integer, run, say } from "./session.mjs";

const text = (value) => ({ type: "string", default: value });

async function fetchGroup(viewer, track, sequence) {
	let frames = 0;
	try {
		const group = await track.fetchGroup(sequence);
		for (let next; (next = await group.readFrameSequence()); frames++) {
			await checkPayload(next.payload, sequence, next.sequence);
			say("frame", sequence, next.sequence, next.payload.length, await sha256(next.payload), viewer);
		}
		const failed = await group.closed;
		if (failed instanceof Error) throw failed;
	} catch (error) {
		if (frames > 0) throw error;
		say("refused", sequence, viewer);
		return;
	}
	say("fetched", sequence, frames, viewer);
}

async function view(viewer, url, values, groups) {
	const connection = await connect(url, values.protocol);
	await announced(connection, values.broadcast);
	const track = connection.consume(values.broadcast).track(values.track);
	for (const sequence of groups) await fetchGroup(viewer, track, sequence);
	connection.close();
}

run(async () => {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: {
			protocol: text(""), broadcast: text("load"), track: text("data"), groups: text(""), viewers: text("1"),
		},
	});
	const groups = values.groups.split(",").map(Number);
	const viewers = integer(values, "viewers", 1);
	await Promise.all(Array.from({ length: viewers }, (_, viewer) => view(viewer, positionals[0], values, groups)));
	say("over");
});
