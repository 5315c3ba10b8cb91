// The page of the log: lines of the server and of a model's process, filters, levels, phone width.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { api, axe, eventually, shot } from "./lib.mjs";

/** Writes two wheels into a folder: a module, and a numpy that is the one of the Python that writes them. */
const wheels = `import pathlib, sys, zipfile, numpy
site = str(pathlib.Path(numpy.__file__).parent.parent)
for name, file, text in (("nereid_e2e", "nereid_e2e.py", "ANSWER = 42"), ("numpy", "numpy_of_the_test.pth", site)):
    info = f"{name}-1.0.dist-info/"
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}-1.0-py3-none-any.whl", "w") as z:
        z.writestr(file, text + "\\n")
        z.writestr(info + "METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        z.writestr(info + "RECORD", "")
`;

export async function logs({ base, page, report, id }) {
  const models = async () => (await api(base, "GET", "/api/models")).models;
  const repository = (await models()).find((m) => m.name === "add_sub").repository;
  const name = `e2e_logs_${id}`;
  const broken = `e2e_logs_broken_${id}`;
  const installs = `e2e_logs_installs_${id}`;
  const config = `backend: "python"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
`;
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
      "config.pbtxt": config,
    });
    await lines.getByText("hello from the model").first().waitFor();
    await lines.getByText(`successfully loaded '${name}'`).first().waitFor();
    await shot(page, "70-logs-model");
    await page.getByLabel("Source").selectOption("process");
    await lines.getByText("successfully loaded").first().waitFor({ state: "detached" });
    report.check((await lines.getByText("hello from the model").count()) > 0, "the lines of the process stay");
    await page.getByLabel("Source").selectOption("");
  });

  await report.step("what the installer of a model's packages wrote is in the same view", async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "nereid-e2e-wheels-"));
    try {
      execFileSync(process.env.NEREID_PYTHON ?? "python3", ["-c", wheels, folder]);
      put(installs, {
        "requirements.txt": `--no-index\n--find-links ${folder}\nnereid_e2e==1.0\n`,
        "1/model.py": 'import nereid_e2e\nprint("the package answers", nereid_e2e.ANSWER, flush=True)\n\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n',
        "config.pbtxt": config,
      });
      await page.goto(`${base}/#/logs/${installs}`);
      await lines.getByText("the package answers 42").first().waitFor();
      await page.reload(); // an installation that is under way is unfolded, one that is done is not
      await lines.getByText(`successfully loaded '${installs}'`).first().waitFor();
      await page.getByRole("heading", { name: "Output of the installer" }).click();
      const output = page.getByRole("region", { name: "Output of the installer" });
      await output.getByText("nereid_e2e").first().waitFor();
      report.check(await lines.getByText("the package answers 42").first().isVisible(), "the lines of the process are beside it");
      await shot(page, "70-logs-installer");
      await axe(page, report, "the log with an installer's output");
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
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
  for (const model of [name, broken, installs]) fs.rmSync(path.join(repository, model), { recursive: true });
}
