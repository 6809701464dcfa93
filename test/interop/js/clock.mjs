// The time of day as a track, in the form of "moq-load clock": each second is a
// group whose number is the second since 1970, each frame the time as text.
//
//   node clock.mjs publish URL [--broadcast clock] [--track seconds] [--rate 2]
//   node clock.mjs watch URL [--broadcast clock] [--track seconds] [--seconds 0]
//
// watch prints each frame with its latency. With --seconds it ends well so long
// after its first frame; no frame within 30 s is an error, and so is a pause of 10 s.
import { parseArgs } from "node:util";
import { Broadcast, Group, Time } from "@moq/net";
import { announced, connect, integer, run, say } from "./session.mjs";

const text = (value) => ({ type: "string", default: value });
const sleepUntil = (at) => new Promise((resolve) => setTimeout(resolve, Math.max(0, at - Date.now())));

async function publish(url, values) {
	const rate = integer(values, "rate", 1);
	const connection = await connect(url, values.protocol);
	const lost = connection.closed.then(() => Promise.reject(new Error("the relay ended the session")));
	const broadcast = new Broadcast.Producer();
	const track = broadcast.createTrack(values.track, { latencyMax: 10_000, timescale: Time.Timescale.MICRO });
	connection.publish(values.broadcast, broadcast);
	say("publishing", values.broadcast, values.track, "as", connection.version, "over", connection.transport);
	for (let second = Math.ceil(Date.now() / 1000); ; second++) {
		const group = new Group.Producer(second);
		track.writeGroup(group);
		for (let tick = 0; tick < rate; tick++) {
			await Promise.race([sleepUntil(second * 1000 + (tick * 1000) / rate), lost]);
			const now = Date.now();
			group.writeFrame({
				payload: new TextEncoder().encode(new Date(now).toISOString()),
				timestamp: Time.Timestamp.fromMicros(now * 1000),
			});
		}
		group.close();
	}
}

async function watch(url, values) {
	const seconds = integer(values, "seconds", 0);
	const connection = await connect(url, values.protocol);
	let late = setTimeout(() => fail(new Error("no frame came within 30 s")), 30_000);
	const { promise: done, resolve, reject: fail } = Promise.withResolvers();
	connection.closed.then(() => fail(new Error("the relay ended the session")));
	const frames = [];
	const readGroup = async (group) => {
		for (let next; (next = await group.readFrameSequence()); ) {
			const time = new TextDecoder().decode(next.payload);
			const latency = Date.now() - Date.parse(time);
			say(time, " latency", `${latency} ms`);
			clearTimeout(late);
			late = setTimeout(() => fail(new Error("no frame came for 10 s")), 10_000);
			if (frames.push(latency) === 1 && seconds > 0) setTimeout(resolve, seconds * 1000);
		}
	};
	(async () => {
		await announced(connection, values.broadcast);
		const track = connection.consume(values.broadcast).track(values.track).subscribe({ latencyMax: 10_000 });
		say("watching", values.broadcast, values.track, "as", connection.version, "over", connection.transport);
		for (let group; (group = await track.recvGroup()); ) readGroup(group).catch(fail);
		fail(new Error("the track ended"));
	})().catch(fail);
	await done;
	frames.sort((a, b) => a - b);
	say("watched", frames.length, "frames in", seconds, "s, latency median", frames[frames.length >> 1], "ms, most", frames.at(-1), "ms");
	connection.close();
}

run(async () => {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: { protocol: text(""), broadcast: text("clock"), track: text("seconds"), rate: text("2"), seconds: text("0") },
	});
	const [what, url] = positionals;
	const does = { publish, watch }[what];
	if (!does || !url) throw new Error("usage: node clock.mjs publish|watch URL");
	await does(url, values);
});
