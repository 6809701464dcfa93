// Makes, checks and uses tokens with the public package.
//
//   node tokens.mjs make            prints, for each algorithm, a key, its public half and tokens of every form
//   node tokens.mjs check           reads {"key", "token", "root"} a line, prints the claims or why not
//   node tokens.mjs sign            reads {"key", "claims"} a line, prints the token
//   node tokens.mjs visit URL       reads {"publisher", "viewer"} tokens a line: each publisher announces, its viewer must see it
//   node tokens.mjs refused URL     reads a token a line: each must be refused
//
// All output is JSON, a line each.
import "./shims.mjs";
import { generate, load, loadPublic, sign, toPublicKey, verify } from "@moq/token";
import { Broadcast } from "@moq/net";
import { announced, connect, run, say, stdinLines } from "./session.mjs";

const algorithms = ["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

const now = () => Math.floor(Date.now() / 1000);

// Every form that the package's claims can have.
const forms = () => [
	{ root: "room", put: "alice" },
	{ root: "room", get: "" },
	{ root: "room", put: ["alice", "bob/cam"], get: ["carol"] },
	{ root: "", put: "", get: "" },
	{ root: "a/b/c", put: [], get: ["x"], exp: now() + 3600 },
	{ root: "room", get: "", exp: now() + 3600.5, iat: now() },
];

async function make() {
	for (const algorithm of algorithms) {
		const key = await generate(algorithm, `js-${algorithm}`);
		const tokens = [];
		for (const claims of forms()) tokens.push({ claims, token: await sign(load(JSON.stringify(key)), claims) });
		say(JSON.stringify({ algorithm, key, public: key.kty === "oct" ? key : toPublicKey(key), tokens }));
	}
}

const line = stdinLines();

async function* requests() {
	for (let text; (text = await line()); ) yield JSON.parse(text);
}

async function check() {
	for await (const { key, token, root } of requests()) {
		try {
			const checked = key.kty === "oct" ? load(JSON.stringify(key)) : loadPublic(JSON.stringify(key));
			say(JSON.stringify({ claims: await verify(checked, token, root) }));
		} catch (error) {
			say(JSON.stringify({ error: error.message }));
		}
	}
}

async function signAll() {
	for await (const { key, claims } of requests()) {
		say(JSON.stringify({ token: await sign(load(JSON.stringify(key)), claims) }));
	}
}

const protocol = "qmux-02.moq-lite-05";
const dial = (url, token) => connect(`${url}?jwt=${encodeURIComponent(token)}`, protocol);

async function visit(url) {
	for await (const { publisher, viewer } of requests()) {
		const from = await dial(url, publisher);
		from.publish("alice", new Broadcast.Producer());
		const to = await dial(url, viewer);
		await announced(to, "alice");
		to.close();
		from.close();
		say(JSON.stringify({ seen: "alice" }));
	}
}

async function refused(url) {
	for await (const token of requests()) {
		const outcome = await dial(url, token).then((connection) => connection.close(), (error) => error);
		say(JSON.stringify({ refused: outcome !== undefined }));
	}
}

const commands = { make, check, sign: signAll, visit, refused };
run(() => commands[process.argv[2]](process.argv[3]));
