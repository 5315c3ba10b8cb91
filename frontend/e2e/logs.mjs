// The page of the log: lines of the server and of a model's process, filters, levels, phone width.
import fs from "node:fs";
import path from "node:path";
import { api, axe, eventually, shot } from "./lib.mjs";

export async function logs({ base, page, report, id }) {
  const models = async () => (await api(base, "GET", "/api/models")).models;
  const repository = (await models()).find((m) => m.name === "add_sub").repository;
  const name = `e2e_logs_${id}`;
  const broken = `e2e_logs_broken_${id}`;
  const lines = page.getByRole("region", { name: "Lines of the log" });
  const put = (model, files) => {
    // Made aside, then renamed: the server must not see an incomplete model.
    const aside = path.join(repository, `.${model}`);
    for (const [file, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(aside, file)), { recursive: true });
      fs.writeFileSync(path.join(aside, file), text);
    }
    fs.renameSync(aside, path.join(repository, model));
  };

  await report.step("the log shows new lines while it is open, and what a model's process writes", async () => {
    await page.goto(`${base}/#/logs/${name}`);
    await lines.getByText("No line matches.").waitFor();
    put(name, {
      "1/model.py": `print("hello from the model", flush=True)

class TritonPythonModel:
    def execute(self, requests):
        return []
`,
      "config.pbtxt": `backend: "python"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
`,
    });
    await lines.getByText("hello from the model").first().waitFor();
    await lines.getByText(`successfully loaded '${name}'`).first().waitFor();
    await shot(page, "70-logs-model");
    await page.getByLabel("Source").selectOption("process");
    await lines.getByText("successfully loaded").first().waitFor({ state: "detached" });
    report.check((await lines.getByText("hello from the model").count()) > 0, "the lines of the process stay");
    await page.getByLabel("Source").selectOption("");
  });

  await report.step("the log is filtered by level and text", async () => {
    put(broken, { "config.pbtxt": 'platfrom: "onnxruntime_onnx"\n' });
    await page.goto(`${base}/#/logs`);
    // A question for new lines is under way when the filter changes, and is answered after that.
    let changed;
    const change = new Promise((ok) => (changed = ok));
    await page.route(/\/api\/logs\?/, async (route) => {
      const url = route.request().url();
      if (url.includes("level=error")) changed();
      else if (/after=[1-9]/.test(url)) await change;
      await route.continue().catch(() => undefined); // the page may have given it up
    });
    await page.waitForRequest(/\/api\/logs\?.*after=[1-9]/);
    await page.getByLabel("Level").selectOption("error");
    await page.getByLabel("Filter by text").fill(broken.toUpperCase());
    await lines.locator("li.error", { hasText: broken }).first().waitFor();
    const others = await eventually(() => lines.locator("li:not(.error)").count(), (n) => n === 0); // until the filter applies
    report.check(others === 0, "only errors are shown");
    await page.unroute(/\/api\/logs\?/);
    await page.getByLabel("Filter by text").fill(`nothing has ${id}`);
    await lines.getByText("No line matches.").waitFor();
    await page.getByLabel("Filter by text").fill("");
    await page.getByLabel("Level").selectOption("verbose");
  });

  await report.step("levels are switched in the page, as by Triton's log settings", async () => {
    const { addresses } = await api(base, "GET", "/api/server");
    const settings = async () => (await fetch(`http://${addresses.http}/v2/logging`)).json();
    const verbose = page.getByRole("checkbox", { name: "Verbose" });
    await verbose.check();
    const on = await eventually(settings, (s) => s.log_verbose_level === 1);
    report.check(on.log_verbose_level === 1, `the level is ${JSON.stringify(on)}`);
    await fetch(`http://${addresses.http}/v2/logging`, { method: "POST", body: '{"log_verbose_level":0}' });
    const off = await eventually(() => verbose.isChecked(), (on) => !on);
    report.check(!off, "the page follows a change of another client");
  });

  await report.step("the log can be read on a phone", async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    try {
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        await page.goto(`${base}/#/logs`);
        await lines.locator("li").nth(3).waitFor();
        const over = await lines.evaluate((el) => el.scrollWidth - el.clientWidth);
        report.check(over <= 0, `the log is ${over} px wider than its place`);
        const whole = await page.locator("main").evaluate((el) => el.scrollWidth - el.clientWidth);
        report.check(whole <= 0, `the page is ${whole} px wider than the phone`);
        await shot(page, `71-logs-phone-${theme}`);
        await axe(page, report, `the log on a phone (${theme})`);
      }
    } finally {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme: "light" });
    }
  });
  for (const model of [name, broken]) fs.rmSync(path.join(repository, model), { recursive: true });
}
