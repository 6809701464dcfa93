// Connecting from Node, and what the programs have in common.
import "./shims.mjs";
import readline from "node:readline";
import { Connection } from "@moq/net";
import Session from "@moq/qmux";

/**
 * Connects to a relay over WebSocket. Without protocol the client makes its own
 * offer; with one, such as "qmux-02.moq-lite-05", it offers that alone.
 */
export async function connect(url, protocol) {
	const signal = AbortSignal.timeout(30_000);
	if (!protocol) return await Connection.connect(new URL(url), { signal });
	const transport = new Session(new URL(url), { protocols: [protocol], requireProtocol: true });
	await transport.ready;
	return await Connection.connect(new URL(url), { transport, signal });
}

/** Waits until a path is announced. */
export async function announced(connection, path) {
	const announcements = connection.announced();
	for (;;) {
		const event = await announcements.next();
		if (!event) throw new Error(`${path} was not announced before the announcements ended`);
		if (event.active && event.path === path) break;
	}
	announcements.close();
}

/** Lines of standard input, one for each call; undefined at its end. */
export function stdinLines() {
	const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
	return async () => (await lines.next()).value;
}

/** Prints one line for a program that reads this one's output. */
export const say = (...words) => console.log(words.join(" "));

/** Runs main; an error is one line on standard error and exit code 1. */
export function run(main) {
	const fail = (error) => {
		console.error(`error: ${error?.message ?? error}`);
		if (process.env.DEBUG) console.error(error);
		process.exit(1);
	};
	process.on("unhandledRejection", (error) => console.error(`unhandled: ${error?.message ?? error}`));
	main().then(() => process.exit(0), fail);
}

/** A whole number from a command line option, at least least. */
export function integer(values, name, least) {
	const n = Number(values[name]);
	if (!Number.isInteger(n) || n < least) throw new Error(`--${name} ${values[name]}: want a whole number of at least ${least}`);
	return n;
}
