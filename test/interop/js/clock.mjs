// A clock: one side publishes the time of day, the other shows it with its latency.
//
//   node clock.mjs publish URL [--rate 1]
//   node clock.mjs watch URL [--ticks N] [--seconds N]
//
// Both take [--broadcast clock] [--track seconds] [--protocol qmux-02.moq-lite-05].
// The track is that of "moq-load clock": each second is a group, each frame the
// time in RFC 3339 with milliseconds.
import { parseArgs } from "node:util";
import { Broadcast, Time } from "@moq/net";
import { announced, connect, integer, run, say } from "./session.mjs";

// The client tells much about its handshakes; what fails is an error here anyway.
console.debug = console.warn = () => {};

const text = (value) => ({ type: "string", default: value });
const untilTime = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms - Date.now())));

async function publish(connection, values) {
	const rate = integer(values, "rate", 1);
	const broadcast = new Broadcast.Producer();
	const track = broadcast.createTrack(values.track, { latencyMax: 10_000, timescale: Time.Timescale.MICRO });
	connection.publish(values.broadcast, broadcast);
	say(`publishing ${values.broadcast}/${values.track} over ${connection.transport}, ${connection.version}`);
	for (let second = Math.floor(Date.now() / 1000) + 1; ; second++) {
		await untilTime(second * 1000);
		const group = track.appendGroup();
		for (let tick = 0; tick < rate; tick++) {
			await untilTime(second * 1000 + (tick * 1000) / rate);
			const now = Date.now();
			const payload = new TextEncoder().encode(new Date(now).toISOString());
			group.writeFrame({ payload, timestamp: Time.Timestamp.fromMicros(now * 1000) });
		}
		group.close();
	}
}

async function watch(connection, values) {
	const ticks = integer(values, "ticks", 0);
	await announced(connection, values.broadcast);
	const joined = Date.now();
	const track = connection.consume(values.broadcast).track(values.track).subscribe({ latencyMax: 1000 });
	say(`watching ${values.broadcast}/${values.track} over ${connection.transport}, ${connection.version}`);
	for (let seen = 0; ticks === 0 || seen < ticks; seen++) {
		const payload = (await track.readFrame())?.payload;
		if (!payload) throw new Error(`the clock stopped after ${seen} ticks`);
		const time = new TextDecoder().decode(payload);
		const note = Date.parse(time) < joined ? " (from before we came)" : "";
		say(`${time}  latency ${Date.now() - Date.parse(time)} ms${note}`);
	}
}

run(async () => {
	const { values, positionals } = parseArgs({
		allowPositionals: true,
		options: {
			protocol: text(""), broadcast: text("clock"), track: text("seconds"),
			rate: text("1"), ticks: text("0"), seconds: text("0"),
		},
	});
	const [role, url] = positionals;
	const act = { publish, watch }[role];
	if (!act || !url) throw new Error("usage: node clock.mjs publish|watch URL [options]");
	const seconds = integer(values, "seconds", 0);
	if (seconds > 0) setTimeout(() => process.exit(0), seconds * 1000);
	for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(0));
	const connection = await connect(url, values.protocol);
	const lost = connection.closed.then(() => {
		throw new Error("the relay has ended the session");
	});
	await Promise.race([act(connection, values), lost]);
	connection.close();
});
