// How much an open page grows: the live history and the live list of requests, each in a tab, with ten requests a second.
//
//   node e2e/hour.mjs http://127.0.0.1:8003 http://127.0.0.1:8000 [MINUTES]
//
// Prints, each minute, the used heap and the number of nodes of each tab after a garbage collection, and the memory of all
// processes of the browser (proportional set size).
import fs from "node:fs";
import { api, launch } from "./lib.mjs";
import { keepBusy } from "./traffic.mjs";

const [base, http, minutes = "60"] = process.argv.slice(2);
const models = (await api(base, "GET", "/api/models")).models.map((m) => m.name).slice(0, 5);
const stop = keepBusy(http, models);
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1360, height: 860 } });
const tabs = [];
for (const hash of ["#/history", "#/requests"]) {
  const page = await context.newPage();
  await page.goto(`${base}/${hash}`);
  tabs.push({ hash, cdp: await context.newCDPSession(page), heap: [] });
}

function processes(pid) {
  const children = fs.readdirSync(`/proc/${pid}/task`).flatMap((t) => fs.readFileSync(`/proc/${pid}/task/${t}/children`, "utf8").match(/\d+/g) ?? []);
  return children.flatMap((c) => [c, ...processes(c)]);
}
function memory() {
  let kb = 0;
  for (const pid of processes(process.pid)) {
    try {
      kb += Number(/^Pss:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0);
    } catch (e) {
      if (e.code !== "ENOENT" && e.code !== "ESRCH") throw e; // it ended meanwhile
    }
  }
  return kb / 1024;
}

for (let minute = 1; minute <= Number(minutes); minute++) {
  await new Promise((ok) => setTimeout(ok, 60_000));
  const parts = [];
  for (const tab of tabs) {
    await tab.cdp.send("HeapProfiler.collectGarbage");
    await tab.cdp.send("Performance.enable");
    const { metrics } = await tab.cdp.send("Performance.getMetrics");
    const of = (name) => metrics.find((m) => m.name === name).value;
    tab.heap.push(of("JSHeapUsedSize") / 2 ** 20);
    parts.push(`${tab.hash} ${tab.heap.at(-1).toFixed(1)} MiB, ${of("Nodes")} nodes`);
  }
  console.log(`minute ${minute}: ${parts.join("; ")}; browser ${memory().toFixed(0)} MiB`);
}
for (const { hash, heap } of tabs) console.log(`${hash} grew by ${(heap.at(-1) - heap[0]).toFixed(1)} MiB from the first minute to the last; wanted at most 20`);
await stop();
await browser.close();
