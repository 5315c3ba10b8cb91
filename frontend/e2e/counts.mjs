// Reads what the pages show of all requests since the start, for a test that has sent them and counted them itself.
//
//   node e2e/counts.mjs http://127.0.0.1:8003
//
// It prints JSON: refused has the number of each "protocol: cause" in the history's legend, and requests has the number of
// rows in the list of requests, by "protocol: outcome"; the outcome of a refused request is its cause. No console message
// may come. NEREID_CHROMIUM: browser.
import { open, Report } from "./lib.mjs";

const base = process.argv[2].replace(/\/$/, "");
const report = new Report();
const { browser, page } = await open(base, report, { viewport: { width: 1360, height: 20_000 } }); // rows out of sight are not made
const out = { refused: {}, requests: {} };

await page.goto(`${base}/#/history`);
const legend = page.locator("figure", { has: page.getByRole("heading", { name: "Refused requests per second, last 5 minutes" }) }).locator(".legend button[aria-pressed]");
await legend.first().waitFor();
for (const text of await legend.allTextContents()) {
  const [, name, n] = /(\w+: [^(]+) \(([\d\s,.]+)\)/.exec(text);
  out.refused[name] = Number(n.replace(/\D/g, ""));
}

await page.goto(`${base}/#/requests`);
const table = page.getByRole("table", { name: "Requests" });
const rows = table.locator("tr.one");
await rows.first().waitFor();
await table.locator("tr.gap").waitFor({ state: "detached" });
for (const row of await rows.all()) {
  const [protocol, outcome] = [row.locator("[data-label=Protocol]"), row.locator(".state").first()];
  const name = `${await protocol.textContent()}: ${await outcome.textContent()}`;
  out.requests[name] = (out.requests[name] ?? 0) + 1;
}
await browser.close();
if (report.failures.length > 0) throw new Error(report.failures.join("\n"));
console.log(JSON.stringify(out));
