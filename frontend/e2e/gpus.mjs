// A machine with two GPUs, which a stand-in of NVIDIA's driver has: their charts, and what the page of the server says.
import fs from "node:fs";
import path from "node:path";
import { api, axe, axeEverywhere, eventually, open, points } from "./lib.mjs";

const mib = 1 << 20;

/** folder: where the stand-in reads what its GPUs do. Without an address, the steps are skipped for the reason `why`. */
export async function gpus({ at, folder, why, report }) {
  const steps = {
    "the charts of the history have a line for each GPU": charted,
    "the page of the server has the GPUs": shown,
    "the charts of a model have its memory of GPUs": ofAModel,
  };
  if (!at) for (const name in steps) report.skips[name] = why;
  const before = report.page;
  if (at) uses(256, 512);
  const { browser, page } = at ? await open(at, report) : {};
  for (const name in steps) await report.step(name, steps[name]);
  report.page = before;
  await browser?.close();

  /** Sets the memory in use of the two GPUs. On the second one the process of running_sum has 96 MiB. */
  function uses(...all) {
    all.forEach((n, i) => {
      const held = i === 1 ? `process ${process.env.NEREID_GPUS_PROCESS} ${96 * mib}\n` : "";
      fs.writeFileSync(path.join(folder, ".new"), `used ${n * mib}\n${held}`);
      fs.renameSync(path.join(folder, ".new"), path.join(folder, `gpu${i}`)); // the driver must not read half of it
    });
  }

  async function charted() {
    await page.goto(`${at}/#/history`);
    const chart = (title) => page.locator("figure", { has: page.getByRole("heading", { name: title, exact: true }) });
    for (const [title, want] of [["GPU utilization", ["37 %", "37 %"]], ["GPU memory", ["256 MiB", "512 MiB"]]]) {
      await chart(title).locator("canvas").waitFor();
      const legend = () => chart(title).locator(".legend button b").allTextContents();
      const said = await eventually(legend, (all) => want.every((w, i) => all[i] === w));
      report.check(want.every((w, i) => said[i] === w), `${title} says ${said}`);
      const lines = await chart(title).locator(".legend button").filter({ hasText: "GPU" }).count();
      report.check(lines === 2, `${title} has ${lines} lines`);
    }
    // Both GPUs are as busy as each other, so only the last line is seen there. Memory has two lines.
    for (const [title, colours] of [["GPU utilization", ["--c2"]], ["GPU memory", ["--c1", "--c2"]]]) {
      for (const colour of colours) {
        const n = await eventually(() => points(chart(title), colour), (n) => n > 5);
        report.check(n > 5, `${title} has ${n} points in ${colour}`);
      }
    }
    uses(256, 768);
    const memory = () => chart("GPU memory").locator(".legend button b").nth(1).textContent();
    const now = await eventually(memory, (v) => v === "768 MiB");
    report.check(now === "768 MiB", `the chart follows: ${now}`);
    await axeEverywhere(page, report, "the charts of GPUs", "76-gpus");
  }

  async function shown() {
    await page.goto(`${at}/#/server`);
    for (const n of [0, 1]) await page.getByText(`Fake GPU ${n}`).first().waitFor();
    report.check((await page.getByText("No NVIDIA GPU was found").count()) === 0, "the GPUs were found");
    await axe(page, report, "the server with GPUs");
  }
  async function ofAModel() {
    const { readings } = await eventually(() => api(at, "GET", "/api/history/machine?model=running_sum"), (h) => h.readings.some((r) => r.name === "gpu_memory"));
    report.check(readings.some((r) => r.name === "gpu_memory"), `the history has ${readings.map((r) => r.name)}`);
    await page.goto(`${at}/#/models/running_sum/charts`);
    const figure = page.locator("figure", { has: page.getByRole("heading", { name: "Memory of the model", exact: true }) });
    const gpu = figure.locator(".legend button").filter({ hasText: "GPU" }).locator("b");
    const said = await eventually(() => gpu.textContent(), (v) => v === "96.0 MiB");
    report.check(said === "96.0 MiB", `the memory of GPUs is ${said}`);
    await axe(page, report, "the charts of a model on a GPU");
  }
}
