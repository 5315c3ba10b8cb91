// The main job of each page in Firefox, against a running server; axe in both themes on every page. run.mjs does more, in
// Chromium.
//
//   NEREID_BROWSER=firefox node e2e/firefox.mjs http://127.0.0.1:8003 - [http://127.0.0.1:8004]
//
// The server needs a writable repository with the models of models-sample. NEREID_SHOTS: folder for screenshots.
// NEREID_FIREFOX: browser.
import path from "node:path";
import { alerting } from "./alerts.mjs";
import { capturing } from "./capturing.mjs";
import { charts } from "./charts.mjs";
import { comparing } from "./comparing.mjs";
import { composing } from "./composing.mjs";
import { converting } from "./converting.mjs";
import { entry } from "./entry.mjs";
import { everyPage } from "./everypage.mjs";
import { getting } from "./getting.mjs";
import { gpus } from "./gpus.mjs";
import { inside } from "./inside.mjs";
import { keyboard } from "./keyboard.mjs";
import { hall, kiosk } from "./kiosk.mjs";
import { logs } from "./logs.mjs";
import { requests } from "./requests.mjs";
import { settings } from "./settings.mjs";
import { tabs } from "./tabs.mjs";
import { trying } from "./trying.mjs";
import { tuning } from "./tuning.mjs";
import { api, axeEverywhere, editorText, open, Report, root, setEditor } from "./lib.mjs";

const base = process.argv[2].replace(/\/$/, "");
const report = new Report();
report.skips = {
  "leaving and coming back eight times": "the driver cannot go back to a page",
  "a page from the back button's cache is live, and follows the models": "the driver cannot go back to a page",
  "files and folders are dropped": "the driver has no drops of files",
  "a chart is saved as CSV and PNG": "the driver does not report downloads",
};
const id = Date.now().toString(36);
const digits = `e2e_digits_${id}`;
const at = (tab) => `${base}/#/models/${digits}/${tab}`;

const { browser, context, page } = await open(base, report);
const dialog = page.locator("dialog[open]");
const button = (name, scope = page) => scope.getByRole("button", { name });

await report.step("import a file and load it", async () => {
  await page.getByText("Live", { exact: true }).waitFor();
  await page.locator("input[type=file]").first().setInputFiles(path.join(root, "models-sample/digits/1/model.onnx"));
  await dialog.getByLabel("Model name").fill(digits);
  await dialog.locator(".cm-line", { hasText: "input" }).first().waitFor();
  await setEditor(page, (await editorText(page)).trimEnd() + "\ninstance_group [ { count: 1 kind: KIND_CPU } ]\n");
  await dialog.getByText("No faults found").waitFor();
  await axeEverywhere(page, report, "import dialog", "02-import");
  await button("Load model", dialog).click();
  await dialog.getByText(`${digits} is ready`).waitFor();
  await button("Try it", dialog).click();
});

await report.step("files and folders are dropped", () => {}); // named among the steps that are skipped

await report.step("try it with a picture", async () => {
  await page.setInputFiles("input[accept='image/*']", path.join(root, "models-sample/digits/requests/grey_28.png"));
  await page.getByText("tensor:").waitFor();
  await button("Send request").click();
  await page.locator("section", { hasText: "Result" }).locator("ol li").first().waitFor();
});

await report.step("warm it up", async () => {
  await page.goto(at("overview"));
  await button("Warm up").click();
  await page.getByText("settled (median").waitFor();
});

await report.step("measure it under load", async () => {
  const load = page.locator("section.load");
  await load.getByRole("button", { name: "Start" }).click();
  await load.getByRole("button", { name: "Stop" }).click();
  await load.getByText(/^Stopped after/).waitFor();
});

await report.step("edit the configuration, then undo the change", async () => {
  await page.goto(at("config"));
  await page.locator(".cm-content").waitFor();
  await setEditor(page, (await editorText(page)).trimEnd() + "\nversion_policy { latest { num_versions: 1 } }\n");
  await page.locator("td.add", { hasText: "version_policy" }).waitFor();
  await page.getByText("No faults found").waitFor();
  await button("Save and reload").click();
  await page.getByText("the new configuration serves").waitFor();
  await page.goto(at("revisions"));
  await button("Undo this change").click();
  await page.getByText("the new configuration serves").last().waitFor();
});

await report.step("command palette by keyboard", async () => {
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.type("server");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Server", level: 1 }).waitFor();
});

await comparing({ base, page, report });
await converting({ base, page, report });
await getting({ base, page, report, id });
await composing({ base, page, report, id });
await tuning({ base, page, report, model: digits });
await inside({ base, page, report, model: digits });
await capturing({ base, page, report, model: digits });
await kiosk({ at: process.argv[4], report });
await hall({ at: process.env.NEREID_HALL, pid: process.env.NEREID_HALL_PID, report });
await entry({ at: process.env.NEREID_ENTRY, token: process.env.NEREID_ENTRY_TOKEN, why: process.env.NEREID_ENTRY_WHY ?? "no NEREID_ENTRY", report });
await gpus({ at: process.env.NEREID_GPUS, folder: process.env.NEREID_GPUS_FOLDER, why: process.env.NEREID_GPUS_WHY ?? "no NEREID_GPUS", report });
await trying({ base, page, report, models: ["words", "running_sum"] });
await alerting({ base, page, report, id });
await tabs({ base, context, report, model: "mlp" });
await logs({ base, page, report, id });
await requests({ base, page, report });
await charts({ base, page, report, models: ["add_sub", "mlp"] });
await settings({ base, http: `http://${(await api(base, "GET", "/api/server")).addresses.http}`, page, report });

await keyboard({ base, report, id, kiosk: process.argv[4] });

await everyPage({ base, page, report, model: digits });

await api(base, "DELETE", `/api/models/${digits}`);
await browser.close();
console.log(report.failures.length ? `${report.failures.length} failed:\n- ${report.failures.join("\n- ")}` : `all passed (${report.passed} checks)`);
process.exit(report.failures.length ? 1 : 0);
