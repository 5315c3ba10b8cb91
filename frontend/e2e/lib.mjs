// Helpers of the browser tests: a browser, checks, screenshots, axe, and real drops.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { chromium, firefox } from "playwright-core";

const require = createRequire(import.meta.url);
const axeSource = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
/** Limit for waits in milliseconds, far above the usual time, so that only a hang fails on a busy machine. */
export const patience = 60_000;
/** Folder for screenshots; none are taken without it. */
const shots = process.env.NEREID_SHOTS ?? "";

/** Collects failures, so that one run shows all of them. */
export class Report {
  failures = [];
  passed = 0;
  asked = 0; // requests of the page
  elsewhere = []; // requests to other servers
  /** Set when there is a page: a failing step takes a screenshot. */
  page = null;
  /** Why a step is not run, by its name. */
  skips = {};

  check(ok, what) {
    if (ok) {
      this.passed++;
      return;
    }
    this.failures.push(what);
    console.error(`FAIL ${what}`);
  }

  /** Where the page is, and the start of its text. */
  async says() {
    if (!this.page) return "";
    const text = await this.page.evaluate(() => document.body.innerText.replace(/\s+/g, " ").slice(0, 300)).catch((e) => e.message);
    return ` | at ${this.page.url()}: ${text}`;
  }

  async step(name, f) {
    if (name in this.skips) {
      console.log(`skip ${name}: ${this.skips[name]}`); // runtests counts these lines
      return;
    }
    const start = Date.now();
    try {
      await f();
      console.log(`ok   ${name} (${Date.now() - start} ms)`);
    } catch (e) {
      // On one line, because runtests shows the first.
      const why = e.message.split("\n").slice(0, 6).map((line) => line.trim()).join(" | ");
      this.failures.push(`${name}: ${why}`);
      console.error(`FAIL ${name}: ${why}${await this.says()}`);
      if (this.page) await shot(this.page, `fail-${name.replace(/[^a-z0-9]+/gi, "-")}`);
    }
  }
}

/** True if the tests run in Firefox (NEREID_BROWSER=firefox), false in Chromium. */
export const inFirefox = process.env.NEREID_BROWSER === "firefox";

/** Starts the browser: NEREID_CHROMIUM or NEREID_FIREFOX is its path. options are those of Playwright for Chromium. */
export function launch(options = {}) {
  // Firefox as distributions ship it: Playwright drives it by WebDriver BiDi.
  if (inFirefox) return firefox.launch({ channel: "moz-firefox", executablePath: process.env.NEREID_FIREFOX ?? "/usr/bin/firefox-esr", firefoxUserPrefs: { "media.navigator.streams.fake": true, "media.navigator.permission.disabled": true } });
  const args = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]; // a camera and a microphone
  if (process.getuid?.() === 0) args.push("--no-sandbox"); // Chromium's sandbox refuses root
  return chromium.launch({ executablePath: process.env.NEREID_CHROMIUM ?? "/usr/bin/chromium", args, ...options });
}

/** Starts the browser and opens the page. Errors of the page are failures. */
export async function open(base, report, options = {}) {
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  report.page = page;
  page.setDefaultTimeout(patience);
  // The driver of Firefox cannot change the preferred theme, and does not say so.
  if (inFirefox) page.emulateMedia = ({ colorScheme }) => chooseTheme(page, colorScheme ?? "system");
  page.on("request", (r) => {
    const ours = r.url().startsWith(base + "/") || /^(data|blob|about|chrome-extension):/.test(r.url());
    report.asked++;
    if (!ours) report.elsewhere.push(r.url());
    if (!ours) report.check(false, `H6 the page asks another place for ${r.url()}`);
  });
  listen(page, report);
  await page.goto(base + "/");
  return { browser, context, page };
}

/** Errors of a page, and errors and warnings of its console, are failures. */
export function listen(page, report) {
  page.on("pageerror", (e) => report.check(false, `error in the page at ${page.url()}: ${e.message}`));
  page.on("console", (m) => {
    const wanted = /favicon|status of (4|5)\d\d/.test(m.text()); // a step tries what the server refuses
    if (["error", "warning"].includes(m.type()) && !wanted) report.check(false, `console ${m.type()} at ${page.url()}: ${m.text()}`);
  });
}

/** Clicks the page's own button until the theme is chosen. The public page has none. */
async function chooseTheme(page, theme) {
  const name = "Theme: ";
  if ((await page.getByLabel(name).count()) === 0) return;
  const label = () => page.getByLabel(name).getAttribute("aria-label");
  for (let now = await label(); !now.startsWith(name + theme); now = await label()) {
    await page.getByLabel(name).evaluate((el) => el.click()); // it may be below an open dialog
    await page.getByLabel(now, { exact: true }).waitFor({ state: "detached" });
  }
}

/** Replaces the text of a number field. fill of Firefox's driver adds to it. */
export async function setNumber(field, value) {
  await field.press("ControlOrMeta+a");
  await field.pressSequentially(String(value));
}

export async function shot(page, name) {
  if (shots === "") return;
  fs.mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, `${name}.png`) });
}

/** Counts the points of a colour in the plot of a chart, from its top to a height in pixels. Axes and legend do not count. */
export function points(figure, colour, height = 10_000) {
  return figure.evaluate((figure, [colour, height]) => {
    const canvas = figure.querySelector("canvas"), [whole, plot] = [canvas, figure.querySelector(".u-over")].map((e) => e.getBoundingClientRect());
    const scale = canvas.width / whole.width;
    const copy = document.createElement("canvas"); // of which points are read often; the page draws into its own
    copy.width = plot.width * scale;
    copy.height = Math.min(height, plot.height) * scale;
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(colour);
    pen.fillRect(0, 0, 1, 1);
    const want = pen.getImageData(0, 0, 1, 1).data.join();
    pen.clearRect(0, 0, 1, 1);
    pen.drawImage(canvas, (whole.left - plot.left) * scale, (whole.top - plot.top) * scale);
    const { data } = pen.getImageData(0, 0, copy.width, copy.height);
    let n = 0;
    for (let i = 0; i < data.length; i += 4) n += data.slice(i, i + 4).join() === want ? 1 : 0;
    return n;
  }, [colour, height]);
}

/** Polls until the answer is as expected, and returns the last answer. */
export async function eventually(ask, is) {
  for (const end = Date.now() + patience; ; await new Promise((ok) => setTimeout(ok, 100))) {
    const answer = await ask();
    if (is(answer) || Date.now() > end) return answer;
  }
}

/** Waits until animations have ended. */
async function still(page) {
  await page.evaluate(async () => {
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    const ends = document.getAnimations().filter((a) => a.effect?.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ends.map((a) => a.finished));
  });
}

/** Runs axe on the page after animations; every violation is a failure. */
export async function axe(page, report, name) {
  await still(page);
  // Through the debugger, so that the content security policy of the page stays in force.
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const v of found.violations) {
    report.check(false, `axe on ${name}: ${v.impact} ${v.id}: ${v.nodes.slice(0, 2).map((n) => n.html.slice(0, 120)).join(" ; ")}`);
  }
  report.check(true, `axe on ${name}`);
  // A box that scrolls by a few pixels has bars that nobody needs. Headless browsers do not draw them. Preformatted text is
  // as wide as its lines, so it may scroll sideways by any number. The page itself is as long as what is on it.
  const bars = await page.evaluate(() => [...document.querySelectorAll("*")].filter((e) => {
    const s = getComputedStyle(e), few = (more) => more > 0 && more < 6;
    return e.tagName !== "MAIN" && /auto|scroll/.test(s.overflowY) && few(e.scrollHeight - e.clientHeight)
      || e.tagName !== "PRE" && /auto|scroll/.test(s.overflowX) && few(e.scrollWidth - e.clientWidth);
  }).map((e) => `${e.tagName}.${e.className}`));
  report.check(bars.length === 0, `${name} scrolls by a few pixels: ${bars.join(", ")}`);
}

/**
 * Runs axe on a page in both themes, wide and as on a phone, and checks that it fits. part, a locator, is scrolled into view for
 * the screenshots, which are shots of the name `file`.
 */
export async function axeEverywhere(page, report, name, file, part) {
  for (const [size, width] of [["wide", 1280], ["phone", 390]]) {
    await page.setViewportSize({ width, height: 860 });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      if (part) await part.evaluate((el) => el.scrollIntoView());
      await axe(page, report, `${name}, ${size}, ${colorScheme}`);
      await shot(page, `${file}-${size}-${colorScheme}`);
    }
    const over = await eventually(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth), (n) => n <= 0);
    report.check(over <= 0, `${name} is ${over} px wider than ${width} px`);
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize({ width: 1360, height: 860 });
}

/** Drops files or folders on the page with real entries, as a desktop does. Only in Chromium. */
export async function drop(page, paths, at = { x: 700, y: 500 }) {
  const cdp = await page.context().newCDPSession(page);
  const data = { items: [], files: paths, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver"]) await cdp.send("Input.dispatchDragEvent", { type, ...at, data });
  const overlay = page.locator(".overlay");
  await overlay.waitFor();
  // A drop counts only if the page has accepted the last move of the pointer, so keep moving.
  for (let attempt = 1; ; attempt++) {
    await cdp.send("Input.dispatchDragEvent", { type: "dragOver", ...at, data });
    await cdp.send("Input.dispatchDragEvent", { type: "drop", ...at, data });
    try {
      await overlay.waitFor({ state: "detached", timeout: 5000 });
      break;
    } catch (e) {
      if (attempt === 12) throw e;
      console.log("again the browser lost the drop"); // runtests counts these lines
      await cdp.send("Input.dispatchDragEvent", { type: "dragEnter", ...at, data });
    }
  }
  await cdp.detach();
}

/** A request to the console, as the page sends it. */
export async function api(base, method, url, body, headers = {}) {
  const res = await fetch(base + url, { method, headers: { "X-Nereid": "1", ...headers }, ...(body === undefined ? {} : { body }) });
  if (!res.ok) throw new Error(`${method} ${url}: HTTP ${res.status} ${await res.text()}`);
  const text = await res.text();
  return text === "" ? null : JSON.parse(text);
}

/** The text of the editor. */
export const editorText = (page) => page.locator(".cm-content").evaluate((el) => [...el.querySelectorAll(".cm-line")].map((l) => l.textContent).join("\n"));

/** Replaces the editor's whole text, as typed by the user. */
export async function setEditor(page, text) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.insertText(text);
}
