// The page of the browser tests: one connection publishes, another one watches.
//
//   ?relay=HOST:PORT          where the relay's TCP port is
//   &udp=HOST:PORT            where WebTransport goes; another address blocks UDP
//   &broadcast=NAME
//
// It publishes the first frame and then waits for window.proceed(). When it is
// done, window.result has what the viewer saw, or an error.
import { Broadcast, Connection, Time } from "@moq/net";
import { checkPayload, frameSize, makePayload, sha256 } from "./payload.mjs";

const groups = 20;
const perGroup = 10;

const options = new URLSearchParams(location.search);
const relay = options.get("relay");
const broadcastName = options.get("broadcast");
const proceed = Promise.withResolvers();
window.proceed = proceed.resolve;
window.progress = { published: 0, watched: 0 };

function fact(name, value) {
	const id = `fact-${name.replaceAll(" ", "-")}`;
	let cell = document.getElementById(id);
	if (!cell) {
		const row = document.getElementById("facts").insertRow();
		row.insertCell().outerHTML = `<th>${name}</th>`;
		cell = row.insertCell();
		cell.id = id;
	}
	cell.textContent = value;
}

function verdict(good, text) {
	const p = document.getElementById("verdict");
	p.textContent = text;
	p.className = good ? "good" : "bad";
}

async function connect() {
	const hash = await (await fetch(`http://${relay}/certificate.sha256`)).text();
	fact("certificate", hash);
	return await Connection.connect(new URL(`https://${options.get("udp")}/`), {
		webtransport: { serverCertificateHashes: [{ value: hash }] },
		websocket: { url: new URL(`ws://${relay}/`) },
		signal: AbortSignal.timeout(30_000),
	});
}

async function publish(connection, sent) {
	const broadcast = new Broadcast.Producer();
	const track = broadcast.createTrack("data", { latencyMax: 30_000, timescale: Time.Timescale.MICRO });
	connection.publish(broadcastName, broadcast);
	for (let g = 0, n = 0; g < groups; g++) {
		const group = track.appendGroup();
		for (let f = 0; f < perGroup; f++, n++) {
			if (n === 1) await proceed.promise;
			const micros = Date.now() * 1000;
			const payload = await makePayload(g, f, frameSize(n, groups * perGroup, 1, 300 * 1024), micros);
			sent.push(`frame ${g} ${f} ${payload.length} ${await sha256(payload)}`);
			group.writeFrame({ payload, timestamp: Time.Timestamp.fromMicros(micros) });
			fact("published", `${(window.progress.published = n + 1)} frames`);
		}
		group.close();
	}
}

async function watch(connection, seen) {
	const announcements = connection.announced();
	for (let event; (event = await announcements.next())?.path !== broadcastName || !event.active; ) {
		if (!event) throw new Error("the announcements have ended");
	}
	const track = connection.consume(broadcastName).track("data").subscribe({ latencyMax: 30_000 });
	const joined = Date.now();
	let [bytes, latency] = [0, 0];
	const { promise: enough, resolve, reject } = Promise.withResolvers();
	const readGroup = async (group) => {
		for (let next; (next = await group.readFrameSequence()); ) {
			const made = await checkPayload(next.payload, group.sequence, next.sequence);
			seen.push(`frame ${group.sequence} ${next.sequence} ${next.payload.length} ${await sha256(next.payload)}`);
			bytes += next.payload.length;
			if (made / 1000 > joined) latency = Math.max(latency, Date.now() - made / 1000);
			fact("watched", `${(window.progress.watched = seen.length)} frames, ${bytes} bytes, every one checked; latency at most ${latency} ms`);
			if (seen.length === groups * perGroup) resolve();
		}
	};
	(async () => {
		for (let group; (group = await track.recvGroup()); ) readGroup(group).catch(reject);
		reject(new Error(`the track ended after ${seen.length} frames`));
	})().catch(reject);
	await enough;
}

async function main() {
	const [sent, seen] = [[], []];
	const publisher = await connect();
	const viewer = await connect();
	fact("publisher", `${publisher.transport}, ${publisher.version}`);
	fact("viewer", `${viewer.transport}, ${viewer.version}`);
	verdict(true, "publishing and watching");
	await Promise.all([publish(publisher, sent), watch(viewer, seen)]);
	verdict(true, `every byte of ${seen.length} frames arrived`);
	return { sent, seen, transports: [publisher.transport, viewer.transport], versions: [publisher.version, viewer.version] };
}

main()
	.catch((error) => {
		verdict(false, `failed: ${error.message}`);
		return { error: error.message };
	})
	.then((result) => (window.result = result));
