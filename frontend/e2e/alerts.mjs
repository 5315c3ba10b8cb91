// Alerts: the bell, the title, the dialog, the page of a model with its rules, the webhook; both themes and phone width.
import fs from "node:fs";
import path from "node:path";
import { api, axe, eventually, setNumber, shot } from "./lib.mjs";

const code = `import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("always")) for _ in requests]
`;
const config = `backend: "python"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
`;

export async function alerting({ base, page, report, id }) {
  const models = async () => (await api(base, "GET", "/api/models")).models;
  const repository = (await models()).find((m) => m.name === "add_sub").repository;
  const name = `e2e_alerts_${id}`;
  const dialog = page.locator("dialog[open]");
  const button = (text, scope = page) => scope.getByRole("button", { name: text });

  const serverRule = (on, limit = 0) => api(base, "PUT", "/api/alerts/rules", JSON.stringify({ rules: [{ kind: "refused", on, limit }], silencedUntilMs: 0 }));
  await serverRule(false); // other steps had requests refused

  await report.step("a failing model raises an alert: title, bell and banner", async () => {
    const aside = path.join(repository, `.${name}`); // made aside: the server must not see an incomplete model
    fs.mkdirSync(path.join(aside, "1"), { recursive: true });
    fs.writeFileSync(path.join(aside, "1", "model.py"), code);
    fs.writeFileSync(path.join(aside, "config.pbtxt"), config);
    fs.renameSync(aside, path.join(repository, name));
    await eventually(models, (all) => all.some((m) => m.name === name && m.state === "READY"));
    await page.goto(`${base}/#/models/${name}`);
    await page.getByRole("heading", { name }).waitFor();
    const body = JSON.stringify({ inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [1] }] });
    for (let i = 0; i < 40; i++) await fetch(`${base}/api/infer/${name}`, { method: "POST", headers: { "X-Nereid": "1" }, body });
    await page.getByText("of the requests of the last minute failed").first().waitFor();
    const title = await page.title();
    report.check(/^\(\d+\) /.test(title), `the title counts the alerts: ${title}`);
    await shot(page, "80-alert-banner");
    await page.getByRole("link", { name: "Show the failed requests" }).click();
    await page.getByRole("row").filter({ hasText: "always" }).first().waitFor(); // with the text of the error
    report.check(page.url().endsWith(`#/requests?show=failed&model=${name}`), `the failed requests are at ${page.url()}`);
    await button(/^Open alerts/).click();
    await dialog.getByRole("link", { name }).waitFor();
    await shot(page, "80-alert-dialog");
    await axe(page, report, "the alerts");
    await dialog.getByRole("link", { name }).click();
    await page.getByRole("heading", { name: "Rules" }).waitFor();
  });

  await report.step("rules of a model are edited and kept", async () => {
    const limit = page.getByLabel("Limit: Failures");
    await limit.fill("42.5");
    await page.getByRole("checkbox", { name: /^Queue/ }).uncheck();
    await button("Save rules").click();
    await page.getByText("The rules are saved").first().waitFor();
    const kept = await api(base, "GET", `/api/models/${name}/alerts`);
    const of = (kind) => kept.rules.find((r) => r.kind === kind);
    report.check(of("failures").limit === 0.425 && !of("queue").on && of("p99").on, `kept: ${JSON.stringify(kept)}`);
    await page.reload();
    await limit.waitFor();
    const again = await eventually(() => limit.inputValue(), (v) => v === "42.5");
    report.check(again === "42.5", `after a reload of the page: ${again}`);
    await page.getByRole("heading", { name: "Loads" }).waitFor();
    const rows = page.locator("section", { has: page.getByRole("heading", { name: "Loads" }) }).locator("tbody tr");
    const row = await eventually(async () => (await rows.first().textContent()) ?? "", (text) => text.includes("100 %"));
    report.check(row.includes("40") && row.includes("100 %"), `the load has its figures: ${row}`);
  });

  await report.step("a silenced model raises nothing in the title", async () => {
    await button("1 h").click();
    await page.getByText("No notifications until").waitFor();
    const title = await eventually(() => page.title(), (x) => !x.startsWith("("));
    report.check(!title.startsWith("("), `the title: ${title}`);
    await button("Notify again").click();
    await button("Notify again").waitFor({ state: "detached" });
  });

  await report.step("alerts fit 1280 px and a phone, in both themes", async () => {
    const size = page.viewportSize();
    try {
      for (const [width, height] of [[1280, 860], [390, 844]]) {
        await page.setViewportSize({ width, height });
        for (const theme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme: theme });
          await page.goto(`${base}/#/models/${name}/alerts`);
          await page.getByRole("heading", { name: "Loads" }).waitFor();
          await page.getByLabel("Limit: Failures").waitFor();
          const over = await page.locator("main").evaluate((el) => el.scrollWidth - el.clientWidth);
          report.check(over <= 0, `the alerts are ${over} px wider than ${width} px`);
          await shot(page, `81-alerts-${width}-${theme}`);
          await axe(page, report, `alerts at ${width} px (${theme})`);
        }
      }
      await page.goto(`${base}/#/settings`);
      await page.getByRole("heading", { name: "Alerts by webhook" }).scrollIntoViewIfNeeded();
      await shot(page, "82-webhook-phone");
    } finally {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme: "light" });
    }
  });

  await report.step("the webhook keeps its secret to itself", async () => {
    await page.goto(`${base}/#/settings`);
    await page.getByLabel("Address", { exact: true }).fill("http://127.0.0.1:1/hook");
    await page.getByLabel("Secret", { exact: true }).fill(`secret-${id}`);
    await button("Save webhook").click();
    await page.getByText("The webhook is saved").first().waitFor();
    await button("Send a test").click();
    await page.getByText("The last message was not delivered").waitFor();
    const text = JSON.stringify(await api(base, "GET", "/api/webhook"));
    report.check(!text.includes(`secret-${id}`), `the secret is not shown: ${text}`);
    await page.getByRole("heading", { name: "Alerts by webhook" }).scrollIntoViewIfNeeded();
    await shot(page, "82-webhook");
    await axe(page, report, "the webhook");
    await api(base, "PUT", "/api/webhook", JSON.stringify({ url: "", secret: "" }));
  });
  await report.step("refused requests raise an alert of the server, whose limit can be changed", async () => {
    await serverRule(true);
    await page.goto(`${base}/#/history`);
    const limit = page.getByLabel("Alert above, % of all requests");
    await setNumber(limit, 30);
    await limit.press("Enter");
    await page.getByText("The rules are saved").first().waitFor();
    const kept = await api(base, "GET", "/api/alerts/rules");
    report.check(kept.rules.length === 1 && kept.rules[0].on && kept.rules[0].limit === 0.3, `kept: ${JSON.stringify(kept)}`);
    await axe(page, report, "the rule about refused requests");
    const { addresses } = await api(base, "GET", "/api/server");
    for (let i = 0; i < 100; i++) await fetch(`http://${addresses.http}/v2/models/absent/infer`, { method: "POST", body: "{}" });
    await eventually(() => api(base, "GET", "/api/alerts"), (all) => all.open.some((a) => a.kind === "refused" && a.model === ""));
    await button(/^Open alerts/).click();
    await dialog.getByText("of the requests of the last minute were refused").waitFor();
    await shot(page, "83-alert-refused");
    await dialog.getByRole("link", { name: "Show the refused requests" }).click();
    await page.getByRole("row").filter({ hasText: "unknown model" }).first().waitFor();
    await shot(page, "83-refused");
    await serverRule(false);
  });

  const worse = `e2e_worse_${id}`;
  await report.step("a version that is worse is replaced by the one before, from its alert", async () => {
    const aside = path.join(repository, `.${worse}`);
    const put = (version, text) => (fs.mkdirSync(path.join(aside, version), { recursive: true }), fs.writeFileSync(path.join(aside, version, "model.py"), text));
    put("1", code.replace(/return .*/, 'return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy())]) for r in requests]'));
    fs.writeFileSync(path.join(aside, "config.pbtxt"), config);
    fs.renameSync(aside, path.join(repository, worse));
    await eventually(models, (all) => all.some((m) => m.name === worse && m.state === "READY"));
    const body = JSON.stringify({ inputs: [{ name: "X", datatype: "FP32", shape: [1], data: [1] }] });
    const send = async (n) => {
      let last = 0;
      for (let i = 0; i < n; i++) last = (await fetch(`${base}/api/infer/${worse}`, { method: "POST", headers: { "X-Nereid": "1" }, body })).status;
      return last;
    };
    const start = Date.now(); // the last seconds before a load are not compared
    await send(60);
    await eventually(async () => (await api(base, "GET", `/api/models/${worse}/loads`)).loads[0].requests, (n) => n >= 60 && Date.now() - start > 6000);
    put("2", code);
    fs.renameSync(path.join(aside, "2"), path.join(repository, worse, "2"));
    fs.rmSync(aside, { recursive: true });
    const open = () => api(base, "GET", "/api/alerts").then((all) => all.open.some((a) => a.model === worse && a.kind === "version"));
    report.check(await eventually(async () => (await send(5), open()), (is) => is), "the new version raises an alert");
    await page.goto(`${base}/#/models/${worse}`);
    await shot(page, "84-worse");
    await button("Serve v1 again").click();
    await page.getByText(`${worse} v1 serves again, in the place of v2.`).waitFor();
    const { versions } = await api(base, "GET", `/api/models/${worse}`);
    report.check(versions.filter((v) => v.state === "READY").map((v) => v.version).join() === "1", `version 1 alone serves: ${JSON.stringify(versions)}`);
    report.check((await send(1)) === 200, "clients get answers again");
  });

  for (const folder of [name, worse]) fs.rmSync(path.join(repository, folder), { recursive: true });
  await eventually(models, (all) => !all.some((m) => m.name === name || m.name === worse));
}
