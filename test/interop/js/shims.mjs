// What @moq/net expects of its platform and Node 18, which is Debian 12's, does not
// have. Newer Nodes need none of it.
import { webcrypto } from "node:crypto";
import WebSocket from "ws";

globalThis.crypto ??= webcrypto;
globalThis.WebSocket ??= WebSocket;

Promise.withResolvers ??= function () {
	let resolve, reject;
	const promise = new this((res, rej) => {
		resolve = res;
		reject = rej;
	});
	return { promise, resolve, reject };
};

Set.prototype.difference ??= function (other) {
	return new Set([...this].filter((x) => !other.has(x)));
};

Set.prototype.union ??= function (other) {
	return new Set([...this, ...other.keys()]);
};
