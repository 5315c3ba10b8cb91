// How fast the page is, with a day of 100 models and 1,000,000 kept requests (build/bench/page.py makes them and starts this).
//
//   node e2e/speed.mjs http://127.0.0.1:8003 http://127.0.0.1:8000
//
// The second address is that of HTTP inference. Prints a line for each figure: what, median, range, and what is wanted.
import { createServer } from "vite";
import { api, launch, root } from "./lib.mjs";
import { keepBusy } from "./traffic.mjs";

const [base, http] = process.argv.slice(2);
const models = (await api(base, "GET", "/api/models")).models.map((m) => m.name);

const sorted = (list) => [...list].sort((a, b) => a - b);
const median = (list) => sorted(list)[Math.floor(list.length / 2)];
function print(what, list, unit, wanted) {
  const s = sorted(list).map((v) => Math.round(v));
  console.log(`${what}: ${Math.round(median(list))} ${unit} [${s[0]}–${s.at(-1)}], n = ${list.length}; wanted ${wanted}`);
}

const browser = await launch();
const size = { width: 1360, height: 860 };
/** Runs f with a page of a browser that has no caches. */
async function fresh(f) {
  const context = await browser.newContext({ viewport: size });
  try {
    return await f(await context.newPage());
  } finally {
    await context.close();
  }
}

/** Two frames after the page has the answer of an address that was asked for after start. Runs in the page. */
const drawn = `async (part, start) => {
  const here = () => performance.getEntriesByType("resource").some((r) => r.name.includes(part) && r.startTime >= start && r.responseEnd > 0);
  while (!here()) await new Promise((ok) => setTimeout(ok, 2));
  for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}`;

/** Frames per second, one value for each second, and the longest time between two frames. Runs in the page. */
const frames = `async (seconds) => {
  const counts = Array(seconds).fill(0), start = performance.now();
  let last = start, longest = 0;
  for (;;) {
    await new Promise(requestAnimationFrame);
    const now = performance.now(), second = Math.floor((now - start) / 1000);
    longest = Math.max(longest, now - last);
    last = now;
    if (second >= seconds) return { counts, longest };
    counts[second]++;
  }
}`;
async function printFrames(page, what) {
  const { counts, longest } = await page.evaluate(`(${frames})(20)`);
  print(what, counts, "frames/s", "at least 50");
  console.log(`  the longest time between two frames was ${Math.round(longest)} ms`);
}

const paints = [], rows = [];
for (let i = 0; i < 10; i++) await fresh(async (page) => {
  await page.goto(`${base}/#/models`);
  await page.locator("tbody .name").first().waitFor();
  rows.push(await page.evaluate(() => performance.now()));
  paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
});
print("first paint, empty cache", paints, "ms", "at most 1000");
print("list of 100 models, empty cache", rows, "ms", "no bar");

const days = [], direct = [];
for (let i = 0; i < 10; i++) await fresh(async (page) => {
  await page.goto(`${base}/#/history`);
  await page.locator("figure canvas").first().waitFor();
  days.push(await page.evaluate(`(async () => {
    const start = performance.now();
    [...document.querySelectorAll("button")].find((b) => b.textContent.trim() === "24 h").click();
    return (${drawn})("step=120000", start);
  })()`));
  await page.goto("about:blank");
  await page.goto(`${base}/#/history?range=24h`);
  direct.push(await page.evaluate(`(${drawn})("step=120000", 0)`));
});
print("a day of 100 models, from the click", days, "ms", "at most 1000");
print("a day of 100 models, with the page itself", direct, "ms", "no bar");

for (const [name, query] of [["newest", ""], ["problems", "show=problems"], ["slow", "show=slow"], ["cancelled, which none is", "show=cancelled"],
  ["failed of a model", "show=failed&model=model_30"], ["an ID that is absent", "id=absent"], ["a text that is absent", "text=nothing+has+this"],
  ["a text of problems that is absent", "text=nothing&show=problems"], ["a client of a model", "client=10.0.0.7&model=model_07"]]) {
  const took = [];
  for (let i = 0; i < 10; i++) {
    const start = performance.now();
    await api(base, "GET", `/api/requests?${query}`);
    took.push(performance.now() - start);
  }
  print(`1,000,000 requests: ${name}`, took, "ms", "at most 300");
}

const stop = keepBusy(http, models.slice(0, 60));
await fresh(async (page) => {
  await page.setViewportSize({ width: 1360, height: 3600 }); // so that 60 rows are drawn
  await page.goto(`${base}/#/models`);
  await page.locator("tbody .name").nth(59).waitFor();
  await printFrames(page, "list of 100 models, 60 busy, a sparkline each");
  await page.setViewportSize(size);
  await page.goto(`${base}/#/history`);
  await page.locator("figure canvas").nth(5).waitFor();
  await printFrames(page, "history, live, the eight busiest of 60 in each chart");
});
await stop();

const vite = await createServer({ root: `${root}/frontend`, logLevel: "error", server: { port: 0, host: "127.0.0.1" } });
await vite.listen();
await fresh(async (page) => {
  await page.setViewportSize({ width: 1920, height: 1600 });
  await page.goto(`http://127.0.0.1:${vite.httpServer.address().port}/e2e/many/`);
  await page.locator("figure canvas").nth(59).waitFor();
  await printFrames(page, "60 charts at 1 Hz");
});
await vite.close();
await browser.close();
