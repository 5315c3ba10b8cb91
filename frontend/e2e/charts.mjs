// Charts and the list of models: the server's clock, the address, exports, events, sorting, selecting, confirmation.
import fs from "node:fs";
import { api, axe, eventually, listen, patience, points, shot } from "./lib.mjs";

/** models: two loaded models of models-sample that nothing else uses at this time. */
export async function charts({ base, page, report, models }) {
  const [model, other] = models;
  const send = () => {
    const data = Array.from({ length: 16 }, (_, i) => i);
    const input = (name) => ({ name, shape: [1, 16], datatype: "FP32", data });
    return api(base, "POST", `/api/infer/${model}`, JSON.stringify({ inputs: [input("INPUT0"), input("INPUT1")] }), { "Content-Type": "application/json" });
  };
  const state = async (name) => (await api(base, "GET", `/api/models/${name}`)).state;

  await report.step("charts are live when the browser's clock is an hour ahead", async () => {
    const context = await page.context().browser().newContext();
    const ahead = await context.newPage();
    listen(ahead, report);
    ahead.setDefaultTimeout(patience);
    await ahead.addInitScript(() => {
      const now = Date.now.bind(Date);
      Date.now = () => now() + 3_600_000;
      delete window.SharedWorker; // its clock cannot be changed from here
    });
    await ahead.goto(`${base}/#/models/${model}/charts`);
    await ahead.locator("figure canvas").first().waitFor();
    const value = () => ahead.locator("figure .legend b").first().textContent();
    const shown = await eventually(async () => (await send(), value()), (v) => /^[1-9]|^0\.[0-9]*[1-9]/.test(v));
    report.check(/[1-9]/.test(shown), `the newest requests per second are ${shown}`);
    await context.close();
  });

  await report.step("range, scale and model of the charts are in the address", async () => {
    await page.goto(`${base}/#/history?range=1h&model=${model}`);
    await page.locator("figure canvas").first().waitFor();
    report.check((await page.getByRole("button", { name: "1 h", exact: true }).getAttribute("aria-pressed")) === "true", "the range of the address is chosen");
    await page.getByLabel("log scale").check();
    report.check(page.url().endsWith(`#/history?range=1h&model=${model}&log=1`), `the address is ${page.url()}`);
    await shot(page, "72-history-log");
    await page.getByRole("button", { name: "From … to …" }).click();
    const to = await page.getByLabel("to", { exact: true }).inputValue();
    await page.getByLabel("From", { exact: true }).fill("2026-01-01T00:00:01");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    report.check(/from=\d+&to=\d+/.test(page.url()), `the address is ${page.url()} (to ${to})`);
    await axe(page, report, "history with a chosen time");
    await page.goto(`${base}/#/history`);
  });

  await report.step("the history has queue and machine; that of a day has the busiest versions and the total", async () => {
    await page.goto(`${base}/#/history`);
    for (const title of ["Requests in the queue (mean)", "CPU of the machine", "Memory of the machine"]) await page.getByRole("img", { name: title, exact: true }).locator("canvas").waitFor();
    await axe(page, report, "history with the machine");
    await send();
    const ask = () => api(base, "GET", `/api/history?from=${Date.now() - 86_400_000}&to=${Date.now()}&most=1`);
    const day = await eventually(ask, (h) => h.busy > 0);
    report.check(day.series.length === 1 && day.busy >= 1 && day.total !== null, `of the busiest: ${day.series.length} series, ${day.busy} busy`);
    await page.goto(`${base}/#/history?range=24h`);
    await page.locator("figure .legend b").first().waitFor();
    await shot(page, "75-history-day");
    await axe(page, report, "history of a day");
  });

  await report.step("a chart is saved as CSV and PNG", async () => {
    await page.goto(`${base}/#/history`);
    await page.locator("figure canvas").first().waitFor();
    const saved = async (kind) => {
      const [d] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: `Save as ${kind}: Requests per second` }).click()]);
      return fs.readFileSync(await d.path());
    };
    const csv = (await saved("CSV")).toString();
    report.check(/^time,.*\r\n\d{4}-\d\d-\d\dT/.test(csv), `the CSV begins with ${csv.slice(0, 80)}`);
    report.check((await saved("PNG")).subarray(1, 4).toString() === "PNG", "the picture is a PNG");
  });

  await report.step("a dashboard for Grafana and alert rules for Prometheus are saved", async () => {
    await page.goto(`${base}/#/server`);
    const saved = async (name) => {
      const [d] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name, exact: true }).click()]);
      return fs.readFileSync(await d.path(), "utf8");
    };
    report.check(JSON.parse(await saved("Save the dashboard")).title === "Nereid", "the dashboard is JSON with a title");
    report.check((await saved("Save the alert rules")).startsWith("groups:\n"), "the rules are a file of groups");
  });

  await report.step("metrics are searched, and have a query to copy", async () => {
    await page.goto(`${base}/#/server`);
    await page.getByText("Each metric of the metrics port").click();
    await page.getByLabel("Filter by name, text or label").fill("nv_inference_request_success");
    const row = page.getByRole("row").filter({ hasText: "nv_inference_request_success" });
    await row.getByText("rate(nv_inference_request_success[5m])", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Copy: rate(nv_inference_request_success[5m])" }).waitFor();
    await row.getByText(/^\d+ values$/).click();
    await row.getByText(`model="${model}"`).first().waitFor();
    await axe(page, report, "metrics");
    await shot(page, "76-metrics");
    await page.getByLabel("Filter by name, text or label").fill("no such metric");
    await page.getByText("No metric fits the filter.").waitFor();
  });

  await report.step("events follow the time of the charts", async () => {
    await page.goto(`${base}/#/history?range=24h`);
    await page.locator("main td.text").first().waitFor();
    await page.getByLabel("group repeated ones").check();
    await page.goto(`${base}/#/history?from=1000000&to=2000000`);
    await page.getByText("No events in this time.").waitFor();
  });

  await report.step("several models are unloaded and loaded; one with traffic asks first", async () => {
    await page.goto(`${base}/#/models`);
    const row = (name) => page.getByRole("checkbox", { name: `Select ${name}`, exact: true });
    await send();
    await eventually(async () => (await api(base, "GET", `/api/models/${model}`)).versions.some((v) => v.lastMinute.requests > 0), (ok) => ok);
    await page.reload(); // with the requests of the last minute
    await row(model).check();
    await row(other).check();
    await page.getByText("2 selected").waitFor();
    await shot(page, "73-models-selected");
    await axe(page, report, "selected models");
    let asked = "";
    page.once("dialog", (d) => ((asked = d.message()), void d.dismiss()));
    await page.getByRole("button", { name: "Unload selected" }).click();
    report.check(asked.includes(`${model} had`), `the page asks: ${asked}`);
    report.check((await state(model)) === "READY", "without consent nothing is unloaded");
    page.once("dialog", (d) => void d.accept());
    await page.getByRole("button", { name: "Unload selected" }).click();
    await page.getByText("2 models are unloaded.").waitFor();
    report.check((await state(model)) !== "READY" && (await state(other)) !== "READY", "both are unloaded");
    await page.getByRole("button", { name: "Load or reload" }).click();
    await page.getByText("2 models are ready.").waitFor();
    const first = () => page.locator("tbody .name").first().textContent();
    await page.getByLabel("Sort by").selectOption("memory");
    const largest = (await api(base, "GET", "/api/models")).models.sort((a, b) => b.memoryBytes + b.gpuBytes - a.memoryBytes - a.gpuBytes)[0].name;
    const shown = await eventually(first, (name) => name === largest);
    report.check(shown === largest, `sorted by memory, ${shown} is the first, not ${largest}`);
  });

  await report.step("loads are marked on the charts", async () => {
    await page.goto(`${base}/#/models/${model}/charts`);
    await page.locator("figure canvas").first().waitFor();
    // Points of the colour of marks at the top of the plot. The axes have it too, but are outside.
    const marks = () => points(page.locator("figure").first(), "--c8", 6);
    const found = await eventually(marks, (n) => n > 5); // it was unloaded and loaded just now
    report.check(found > 5, `the marks have ${found} points`);
  });

  await report.step("charts and list on a phone", async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    try {
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        for (const [name, hash, there] of [["history", "#/history", "figure canvas"], ["models", "#/models", "tbody .name"]]) {
          await page.goto(`${base}/${hash}`);
          await page.locator(there).first().waitFor();
          const over = await page.locator("main").evaluate((el) => el.scrollWidth - el.clientWidth);
          report.check(over <= 0, `${name} is ${over} px wider than the phone`);
          await shot(page, `74-phone-${name}-${theme}`);
          await axe(page, report, `${name} on a phone (${theme})`);
        }
      }
    } finally {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme: "light" });
    }
  });
}
