// Drives Chromium through the page of the browser tests.
//
//   node browser.mjs PAGE-URL CHROMIUM SCREENSHOT.png
//
// Prints "first" when the page's viewer has its first frame, goes on when there is
// a line on standard input, and prints "transports …", "versions …", the frames
// that the viewer saw, and those that were published with 1 as the viewer. The page
// stays open, and so publishing, until standard input ends: other viewers may be slower.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { run, say, stdinLines } from "./session.mjs";

const flags = [
	"--no-sandbox", "--disable-gpu", "--no-first-run",
	"--disable-background-networking", "--disable-component-update", "--disable-sync",
];

run(async () => {
	const [url, executablePath, screenshot] = process.argv.slice(2);
	const profile = fs.mkdtempSync(path.join(os.tmpdir(), "moqrelay-chromium-"));
	const context = await chromium.launchPersistentContext(profile, {
		executablePath, headless: true, args: flags, viewport: { width: 900, height: 420 }, timeout: 60_000,
	});
	try {
		const page = context.pages()[0] ?? (await context.newPage());
		page.on("console", (message) => console.error(`page: ${message.text()}`));
		page.on("pageerror", (error) => console.error(`page error: ${error.message}`));
		await page.goto(url);
		const settled = (what) => page.waitForFunction(what, null, { timeout: 60_000 });
		await settled(() => window.result || window.progress?.watched > 0);
		say("first");
		const line = stdinLines();
		await line();
		await page.evaluate(() => window.proceed());
		await settled(() => window.result);
		await page.screenshot({ path: screenshot });
		const result = await page.evaluate(() => window.result);
		if (result.error) throw new Error(`the page says: ${result.error}`);
		say("transports", ...result.transports);
		say("versions", ...result.versions);
		for (const frame of result.seen) say(frame, 0);
		for (const frame of result.sent) say(frame, 1);
		while ((await line()) !== undefined);
	} finally {
		await context.close();
		fs.rmSync(profile, { recursive: true, force: true });
	}
});
