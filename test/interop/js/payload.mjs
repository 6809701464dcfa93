// The self-checking payload of moq-load: package relay/load, payload.go, has its layout.
// Runs in Node and in a page.

const headBytes = 44;
const hashAt = 28;
const hashBytes = 16;
const magic = 0x4d514c31; // "MQL1"

const digest = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

export const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/** The SHA-256 of a payload, in lower-case hex. */
export const sha256 = async (payload) => hex(await digest(payload));

// check is what the hash in the head covers: everything but itself.
async function check(payload) {
	const covered = new Uint8Array(payload.length - hashBytes);
	covered.set(payload.subarray(0, hashAt));
	covered.set(payload.subarray(headBytes), hashAt);
	return (await digest(covered)).subarray(0, hashBytes);
}

/** Makes the payload of a frame. micros is the time of day in microseconds. */
export async function makePayload(group, frame, size, micros) {
	const payload = new Uint8Array(size);
	if (size < headBytes) {
		for (let i = 0; i < size; i++) payload[i] = group * 31 + frame * 7 + i * 13 + 1;
		return payload;
	}
	const view = new DataView(payload.buffer);
	view.setUint32(0, magic);
	view.setUint32(4, size);
	view.setBigUint64(8, BigInt(group));
	view.setUint32(16, frame);
	view.setBigUint64(20, BigInt(micros));
	let x = (group * 31 + frame) >>> 0;
	for (let i = headBytes; i < size; i++) {
		x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
		payload[i] = x >>> 24;
	}
	payload.set(await check(payload), hashAt);
	return payload;
}

/**
 * Throws when a payload is not the one that was made for this place. Returns the
 * time in its head in microseconds, or undefined for a payload too small for one.
 */
export async function checkPayload(payload, group, frame) {
	const where = `group ${group} frame ${frame}, ${payload.length} bytes`;
	if (payload.length < headBytes) {
		const want = await makePayload(group, frame, payload.length, 0);
		if (hex(payload) !== hex(want)) throw new Error(`${where}: payload ${hex(payload)}, want ${hex(want)}`);
		return undefined;
	}
	const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
	const found = [view.getUint32(0), view.getUint32(4), Number(view.getBigUint64(8)), view.getUint32(16)];
	const want = [magic, payload.length, group, frame];
	if (found.join() !== want.join()) throw new Error(`${where}: head says ${found}, want ${want}`);
	if (hex(payload.subarray(hashAt, headBytes)) !== hex(await check(payload))) throw new Error(`${where}: wrong hash`);
	return Number(view.getBigUint64(20));
}

/**
 * The size of frame n of count, from min to max: both ends occur, sizes between
 * are spread evenly over the orders of magnitude and mixed over the groups.
 */
export function frameSize(n, count, min, max) {
	const step = count % 73 === 0 ? 71 : 73;
	const place = count < 2 ? 1 : ((n * step) % count) / (count - 1);
	return Math.round(min * (max / min) ** place);
}
