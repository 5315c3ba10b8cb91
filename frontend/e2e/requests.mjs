// The page of the requests: live, filters in the address, details in words, steps, phone width.
import fs from "node:fs";
import path from "node:path";
import { api, axe, eventually, shot } from "./lib.mjs";

const failing = `import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("the moon is in the way")) for _ in requests]
`;
const config = `backend: "python"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
`;

const sleeping = `import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            time.sleep(0.5 * float(x[0]))
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
        return out
`;

/** Writes a model into the repository and waits until it is ready. */
async function addModel(base, name, code = failing) {
  const models = async () => (await api(base, "GET", "/api/models")).models;
  const repository = (await models()).find((m) => m.name === "add_sub").repository;
  const aside = path.join(repository, `.${name}`); // made aside: the server must not see an incomplete model
  fs.mkdirSync(path.join(aside, "1"), { recursive: true });
  fs.writeFileSync(path.join(aside, "1", "model.py"), code);
  fs.writeFileSync(path.join(aside, "config.pbtxt"), config);
  fs.renameSync(aside, path.join(repository, name));
  await eventually(models, (all) => all.some((m) => m.name === name && m.state === "READY"));
  return path.join(repository, name);
}

export async function requests({ base, page, report }) {
  const { addresses } = await api(base, "GET", "/api/server");
  const send = (model, body) => fetch(`http://${addresses.http}/v2/models/${model}/infer`, { method: "POST", body: JSON.stringify(body) });
  const values = { shape: [1, 16], datatype: "FP32", data: Array.from({ length: 16 }, (_, i) => i) };
  const good = (id) => send("add_sub", { id, inputs: [{ name: "INPUT0", ...values }, { name: "INPUT1", ...values }] });
  const table = page.getByRole("table", { name: "Requests" });
  const row = (text) => table.locator("tr.one", { hasText: text }).first();
  const mark = `e2e-${Date.now().toString(36)}`;

  await report.step("a request shows up on the page of the requests while it is open", async () => {
    await page.goto(`${base}/#/requests`);
    await page.getByRole("heading", { name: "Requests" }).waitFor();
    await good(`${mark}-ok`);
    await row(`${mark}-ok`).waitFor();
    report.check((await row(`${mark}-ok`).textContent()).includes("add_sub v1"), "it has its model and version");
    await send("add_sub", { id: `${mark}-bad`, inputs: [] });
    await row("invalid").waitFor();
  });

  await report.step("a request explains itself in words", async () => {
    await row(`${mark}-ok`).getByRole("button").click();
    await table.getByText(/It ran alone in add_sub/).waitFor();
    await shot(page, "72-request");
    await axe(page, report, "a request with its details");
    await row(`${mark}-ok`).getByRole("button").click();
  });

  await report.step("the calls of a model are below its request", async () => {
    const picture = { name: "picture", shape: [28, 28], datatype: "UINT8", data: new Array(784).fill(0) };
    await send("digits_pipeline", { id: `${mark}-steps`, inputs: [picture] });
    await row(`${mark}-steps`).getByRole("button").click();
    await table.locator("ol.steps li", { hasText: "digits" }).first().waitFor();
    await shot(page, "73-request-steps");
  });

  await report.step("filters are in the address", async () => {
    await page.getByLabel("Outcome shown").selectOption("refused");
    await table.locator("tr.one.ok").first().waitFor({ state: "detached" });
    await row("invalid").waitFor();
    report.check(page.url().endsWith("#/requests?show=refused"), page.url());
    await page.goto(`${base}/#/requests?text=${mark}-OK`);
    await row(`${mark}-ok`).waitFor();
    report.check((await table.locator("tr.one").count()) === 1, "only the request with the text is shown");
    await page.getByLabel("Search").fill("nothing has this");
    await table.getByText("No request matches.").waitFor();
  });

  await report.step("failed requests are found, and one explains itself with its waterfall", async () => {
    const name = `e2e_fails_${mark.slice(4)}`;
    const folder = await addModel(base, name);
    const sent = await send(name, { id: `${mark}-failed`, inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [1] }] });
    report.check(sent.status === 500, `the model fails: ${sent.status}`);
    await good(`${mark}-good`);
    await page.goto(`${base}/#/requests`);
    await page.getByLabel("Outcome shown").selectOption("failed");
    await row(`${mark}-failed`).getByRole("button").click();
    report.check((await table.locator("tr.one.ok").count()) === 0, "only failed requests are listed");
    await table.getByRole("paragraph").filter({ hasText: "the moon is in the way" }).waitFor();
    await table.getByText(`It ran alone in ${name}`).waitFor();
    report.check((await table.locator("tr.detail").getByRole("link", { name: "Log of this model" }).getAttribute("href")) === `#/logs/${name}`, "its log is a click away");
    report.check((await table.locator("tr.detail .track .bar > span").count()) > 2, "its time is shown in parts");
    await shot(page, "73-request-failed");
    await axe(page, report, "a failed request");
    fs.rmSync(folder, { recursive: true, force: true });
    await eventually(() => api(base, "GET", "/api/models"), (all) => !all.models.some((m) => m.name === name && m.state === "READY"));
  });

  await report.step("a range of time is chosen, is in the address, and is left again", async () => {
    await page.goto(`${base}/#/requests`);
    await row(`${mark}-ok`).waitFor();
    await page.getByRole("button", { name: "From … to …" }).click();
    await page.getByLabel("From", { exact: true }).fill("2020-01-01T10:00:01");
    await page.getByLabel("to", { exact: true }).fill("2020-01-01T11:00:01");
    await shot(page, "73-requests-range");
    await axe(page, report, "the range of the requests");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await table.getByText("No request matches.").waitFor();
    report.check(/from=\d+&to=\d+/.test(page.url()), page.url());
    await page.reload();
    await table.getByText("No request matches.").waitFor();
    await page.getByRole("button", { name: "Any time" }).click();
    await row(`${mark}-ok`).waitFor();
    report.check(page.url().endsWith("#/requests"), page.url());
  });

  await report.step("a paused list does not change", async () => {
    await page.goto(`${base}/#/requests`);
    await row(`${mark}-ok`).waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await good(`${mark}-later`);
    const before = await table.locator("tr.one").count();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    report.check((await row(`${mark}-later`).count()) === 0 && (await table.locator("tr.one").count()) === before, "nothing is added");
    await page.getByRole("button", { name: "Resume" }).click();
    await row(`${mark}-later`).waitFor();
  });

  await report.step("the requests can be read on a phone", async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    try {
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        await page.goto(`${base}/#/requests`);
        await row(`${mark}-ok`).waitFor();
        const whole = await page.locator("main").evaluate((el) => el.scrollWidth - el.clientWidth);
        report.check(whole <= 0, `the page is ${whole} px wider than the phone`);
        await shot(page, `74-requests-phone-${theme}`);
        await axe(page, report, `the requests on a phone (${theme})`);
      }
    } finally {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme: "light" });
    }
  });

  await report.step("requests are filtered by client, by ID, and to the slow ones", async () => {
    await good(`${mark}-client`);
    await page.goto(`${base}/#/requests`);
    await row(`${mark}-client`).waitFor();
    const clients = page.getByLabel("Client", { exact: true });
    await clients.selectOption("127.0.0.1");
    await row(`${mark}-client`).waitFor();
    report.check((await table.locator("tr.one", { hasNotText: "127.0.0.1" }).count()) === 0, "only requests of the client are listed");
    report.check(page.url().endsWith("#/requests?client=127.0.0.1"), page.url());
    await page.getByLabel("Request ID", { exact: true }).fill(`${mark}-client`);
    await eventually(() => table.locator("tr.one").count(), (n) => n === 1);
    report.check((await table.locator("tr.one").count()) === 1, "one request has the ID");
    await page.goto(`${base}/#/requests?client=192.0.2.1`);
    await table.getByText("No request matches.").waitFor();

    // One that takes half a second, after more than a hundred that take none.
    const name = `e2e_slow_${mark.slice(4)}`;
    const folder = await addModel(base, name, sleeping);
    const ask = (id, data) => send(name, { id, inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [data] }] });
    for (let sent = 0; sent < 300; sent += 30) await Promise.all(Array.from({ length: 30 }, (_, i) => ask(`${mark}-quick-${sent + i}`, 0)));
    report.check((await ask(`${mark}-slow`, 1)).status === 200, "the slow request is answered");
    await page.goto(`${base}/#/requests?model=${name}`);
    await page.getByLabel("Outcome shown").selectOption("slow");
    await row(`${mark}-slow`).waitFor();
    const all = await table.locator("tr.one").count();
    report.check(all < 301 && (await row(`${mark}-slow`).textContent()).includes("slow"), `${all} of 301 requests are slow`);
    fs.rmSync(folder, { recursive: true, force: true });
    await eventually(() => api(base, "GET", "/api/models"), (list) => !list.models.some((m) => m.name === name && m.state === "READY"));
  });

  await report.step("of thousands of requests only the rows near the view are in the page", async () => {
    const many = 1500;
    for (let sent = 0; sent < many; sent += 50) await Promise.all(Array.from({ length: 50 }, (_, i) => good(`${mark}-many-${sent + i}`)));
    await page.goto(`${base}/#/requests?text=${mark}-many`);
    await row(`${mark}-many`).waitFor();
    const older = page.getByRole("button", { name: "Older requests" });
    const rows = () => table.locator("tr.one").count();
    // By keyboard, because the button moves.
    const listed = await eventually(async () => {
      if (await older.isEnabled({ timeout: 100 }).catch(() => false)) await older.press("Enter");
      return table.getAttribute("aria-rowcount");
    }, (n) => Number(n) === many + 1);
    report.check(Number(listed) === many + 1, `${listed} rows with the heading are listed`);
    report.check((await rows()) < 300, `${await rows()} rows are in the page`);
    const end = table.locator(`tr[aria-rowindex="${many + 1}"]`);
    // The list gets longer on the way: the height of rows that were not in the page yet is a guess.
    await eventually(async () => (await page.locator("main").evaluate((el) => el.scrollTo(0, el.scrollHeight)), end.isVisible()), (seen) => seen);
    report.check((await rows()) < 300, `${await rows()} rows are in the page at its end`);
    const last = await end.boundingBox();
    report.check(last.height < 100, `a row is ${last.height} px high`);
    await shot(page, "73-requests-many");
  });

  await report.step("the list waits while one reads further down", async () => {
    await page.goto(`${base}/#/requests`);
    await row(`${mark}-many`).waitFor();
    await page.locator("main").evaluate((el) => el.scrollTo(0, el.scrollHeight));
    const up = page.getByRole("button", { name: "To the newest requests" });
    await up.waitFor();
    await shot(page, "73-requests-below");
    await good(`${mark}-below`);
    await up.click();
    await row(`${mark}-below`).waitFor();
  });
}
