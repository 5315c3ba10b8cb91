// Where models run: the machine, the memory budget, pins, single versions, processes that crash, environments
// that cannot be built, frameworks that are missing.
import fs from "node:fs";
import path from "node:path";
import { api, axe, eventually, listen, patience, root, shot } from "./lib.mjs";

const python = (body) => `import os
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
${body}
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
        return answers
`;
const config = 'backend: "python"\ninput [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]\n';

/** The server follows its repository (poll mode). Models that begin with e2e_ are made there, and removed. */
export async function runtime({ base, page, report }) {
  const repo = (await api(base, "GET", "/api/server")).repositories[0].path;
  const made = [];
  const make = (name, files) => {
    made.push(name);
    // Copy beside it, then rename: the server must not see an incomplete model.
    const aside = path.join(repo, `.${name}`);
    for (const [file, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(aside, file)), { recursive: true });
      fs.writeFileSync(path.join(aside, file), text);
    }
    fs.renameSync(aside, path.join(repo, name));
  };
  const until = async (name, is) => {
    const good = (m) => m !== undefined && is(m);
    const m = await eventually(async () => (await api(base, "GET", "/api/models")).models.find((x) => x.name === name), good);
    if (!good(m)) throw new Error(`${name} is not as it should be: ${JSON.stringify(m)}`);
    return m;
  };
  const open = (name) => page.goto(`${base}/#/models/${name}`);
  const panel = (heading) => page.locator("section.panel", { has: page.getByRole("heading", { name: heading, exact: true }) });

  await report.step("the server page shows the machine and the memory of models", async () => {
    await page.goto(`${base}/#/server`);
    await panel("Machine").getByText(/% of \d+ cores busy/).first().waitFor(); // the second message of the stream has it
    await panel("Machine").getByRole("meter").nth(1).waitFor();
    const machine = await api(base, "GET", "/api/machine");
    if (machine.gpus.length === 0) await page.getByText("No NVIDIA GPU was found that models can use").waitFor();
    await panel("Memory of models").getByRole("meter").waitFor();
    await panel("Frameworks").getByRole("button", { name: "Install PyTorch…" }).waitFor();
    await shot(page, "17-server");
    await axe(page, report, "server with machine");
    await panel("Frameworks").getByRole("button", { name: "Install PyTorch…" }).click();
    await page.getByRole("dialog").getByText("5.5 GB").waitFor();
    await axe(page, report, "the question before an installation");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    report.check((await api(base, "GET", "/api/frameworks")).frameworks.every((f) => f.state === "missing"), "nothing is installed without consent");
  });

  await report.step("versions are loaded and unloaded one by one, and a pin stays", async () => {
    const onnx = fs.readFileSync(path.join(root, "models-sample", "add_sub", "1", "model.onnx"));
    make("e2e_versions", { "1/model.onnx": onnx, "2/model.onnx": onnx, "3/model.onnx": onnx });
    await until("e2e_versions", (m) => m.state === "READY");
    await open("e2e_versions");
    const versions = panel("Versions");
    await versions.getByRole("button", { name: "Load v1", exact: true }).click();
    await versions.getByRole("button", { name: "Unload v1" }).waitFor();
    await versions.getByRole("button", { name: "Unload v3" }).click();
    await versions.getByRole("button", { name: "Load v3", exact: true }).waitFor(); // not "Unload v3"
    const m = await api(base, "GET", "/api/models/e2e_versions");
    const ready = m.versions.filter((v) => v.state === "READY").map((v) => v.version);
    report.check(ready.join() === "1", `version 1 alone serves: ${ready}`);
    await shot(page, "18-versions");
    const pin = page.getByLabel("Never evict it from memory");
    await pin.check();
    await until("e2e_versions", (x) => x.pinned);
    await page.reload();
    await page.getByRole("heading", { name: "e2e_versions" }).waitFor();
    report.check(await eventually(() => pin.isChecked(), (on) => on), "the pin is still there");
    await pin.uncheck();
    await until("e2e_versions", (x) => !x.pinned);
    await axe(page, report, "versions");
  });

  await report.step("an instance that starts after the page was opened is shown", async () => {
    let asked = 0;
    const early = /\/api\/models\/add_sub\/runtime$/;
    // The server's answer of a moment at which no instance had started.
    await page.route(early, async (route) => {
      const reply = await route.fetch();
      await route.fulfill({ response: reply, json: { ...(await reply.json()), ...(asked++ === 0 ? { instances: [] } : {}) } });
    });
    await open("add_sub");
    await panel("Instances").getByText("add_sub_0", { exact: false }).first().waitFor();
    report.check(asked >= 2, `the page asked ${asked} times`);
    await page.unroute(early);
  });

  await report.step("a process that crashes is shown with its last output, and restarts", async () => {
    make("e2e_mortal", { "config.pbtxt": config, "1/model.py": python("            print('got', int(x[0]), flush=True)\n            if x[0] == 13: os.abort()") });
    await until("e2e_mortal", (m) => m.state === "READY");
    await open("e2e_mortal");
    const instances = panel("Instances");
    await instances.getByRole("button", { name: "e2e_mortal_0" }).click();
    const row = instances.locator("tbody tr").first();
    const before = (await row.locator("td").nth(3).innerText()).split("\n")[0];
    report.check(/^\d+$/.test(before), `the process has its number: ${before}`);
    const body = (v) => JSON.stringify({ inputs: [{ name: "X", shape: [1], datatype: "FP32", data: [v] }] });
    await api(base, "POST", "/api/infer/e2e_mortal", body(12), { "Content-Type": "application/json" });
    await instances.getByText("got 12").waitFor();
    await api(base, "POST", "/api/infer/e2e_mortal", body(13), { "Content-Type": "application/json" }).then(
      () => report.check(false, "a process that aborts answers"),
      (e) => report.check(e.message.includes("signal 6"), `the error says how it ended: ${e.message}`),
    );
    await row.locator("td").nth(5).getByText("1", { exact: true }).waitFor();
    await instances.getByRole("region", { name: "Last output of the previous process" }).getByText("got 13").waitFor();
    await shot(page, "19-process");
    await axe(page, report, "processes");
    const after = await eventually(async () => (await row.locator("td").nth(3).innerText()).split("\n")[0], (pid) => /^\d+$/.test(pid) && pid !== before);
    report.check(/^\d+$/.test(after) && after !== before, `another process runs: ${after} after ${before}`);
  });

  await report.step("a model that fails every third request shows it on every page that is opened", async () => {
    make("e2e_flaky", { "config.pbtxt": config, "1/model.py": python("            self.n = getattr(self, 'n', 0) + 1\n            if self.n % 3 == 0: raise RuntimeError('the third')") });
    await until("e2e_flaky", (m) => m.state === "READY");
    const body = JSON.stringify({ inputs: [{ name: "X", shape: [1], datatype: "FP32", data: [1] }] });
    let failed = 0;
    const send = async () => {
      for (let i = 0; i < 30; i++) await api(base, "POST", "/api/infer/e2e_flaky", body, { "Content-Type": "application/json" }).catch(() => failed++);
    };
    await send();
    report.check(failed === 10, `${failed} of 30 requests fail`);
    await until("e2e_flaky", (m) => m.versions[0].lastMinute.failures === 10); // within a second
    const fresh = await page.context().browser().newPage(); // a browser that has seen nothing yet
    fresh.setDefaultTimeout(patience);
    listen(fresh, report);
    const start = Date.now();
    await fresh.goto(`${base}/#/models`);
    const shows = async (p) => {
      const row = p.locator("tr", { hasText: "e2e_flaky" });
      const cell = row.getByText(/^\d+ \(3\d %\)/); // the first requests may be older than a minute at the end
      const said = new Set();
      for (const end = Date.now() + patience; !(await cell.isVisible());) {
        said.add(await row.locator("td.num").allInnerTexts().then((all) => all.join(", ")));
        if (Date.now() > end) throw new Error(`the row said ${[...said].join("; ")}`);
        await row.scrollIntoViewIfNeeded(); // rows out of sight do not change, and this one moves when others come
        await cell.waitFor({ timeout: 1000 }).catch(() => undefined);
      }
    };
    await shows(fresh);
    console.log(`     33 % are shown after ${Date.now() - start} ms`);
    await fresh.goto(`${base}/#/models/e2e_flaky`);
    await fresh.getByText(/\d+ \(3\d %\)/).waitFor();
    await fresh.goto(`${base}/#/history`);
    await fresh.getByRole("img", { name: "Failures per second" }).waitFor();
    await shot(fresh, "19-failures-history");
    await fresh.close();
    await page.goto(`${base}/#/models`);
    await send();
    await shows(page);
    await shot(page, "19-failures");
  });

  await report.step("refused requests are charted by cause and listed", async () => {
    const { http } = (await api(base, "GET", "/api/server")).addresses;
    report.check((await fetch(`http://${http}/v2/e2e_no_such_path`)).status === 404, "an unknown path is not found");
    await page.goto(`${base}/#/models`);
    await page.getByRole("link", { name: /requests refused in the last minute: \d/ }).click();
    await page.getByRole("table", { name: "Requests" }).getByText("e2e_no_such_path").first().waitFor();
    await page.goto(`${base}/#/history`);
    await page.getByRole("cell", { name: "GET /v2/e2e_no_such_path" }).first().waitFor();
    await page.getByRole("button", { name: /HTTP: not found \(\d+\)/ }).waitFor();
    await shot(page, "19-refused");
    await axe(page, report, "refused requests");
  });

  await report.step("an environment that cannot be built shows what the installer said", async () => {
    make("e2e_environment", { "config.pbtxt": config, "requirements.txt": "--no-index\n./nereid_e2e_none-1.0-py3-none-any.whl\n", "1/model.py": python("            pass") });
    await until("e2e_environment", (m) => m.versions.some((v) => v.state === "UNAVAILABLE" && v.reason.includes("cannot be built from")));
    await open("e2e_environment");
    const env = panel("Python environment");
    await env.getByText("could not be built").waitFor();
    await env.getByRole("region", { name: "Output of the installer" }).getByText("nereid_e2e_none").first().waitFor();
    await shot(page, "19-environment");
    await axe(page, report, "environment");
  });

  await report.step("a model that waits for a framework offers to install it", async () => {
    make("e2e_torch", { "config.pbtxt": config.replace("python", "pytorch"), "1/model.pt": "no model" });
    await until("e2e_torch", (m) => m.versions.some((v) => v.reason.includes("is not installed")));
    await page.goto(`${base}/#/models`);
    await page.getByText("e2e_torch needs PyTorch, which is not installed.").waitFor();
    await page.locator("p", { hasText: "e2e_torch needs PyTorch" }).getByRole("button", { name: "Install PyTorch…" }).click();
    await page.getByRole("dialog").getByText(/Models that are loaded after it: .*e2e_torch/).waitFor();
    await shot(page, "19-install");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  });

  for (const name of made) await api(base, "DELETE", `/api/models/${name}`);
  // A model stays in the list until its last version is unloaded.
  const left = async () => (await api(base, "GET", "/api/models")).models.filter((m) => made.includes(m.name));
  await eventually(left, (models) => models.length === 0);
}
