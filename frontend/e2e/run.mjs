// The main job in a real browser, against a running server: drop an ONNX file, edit its configuration, load it, warm
// it up, try it with a picture, watch the chart, undo a change, download the model; axe in both themes on every page, on a phone too.
//
//   node e2e/run.mjs http://127.0.0.1:8003 [http://127.0.0.1:8103 [http://127.0.0.1:8004]]
//
// The second server has an empty, writable repository, for the first steps. The third address is the public page of the
// first, with the models digits, words, running_sum and add_sub.
// The server needs a writable repository; models of models-sample are taken as what is dropped. The models that the
// run makes begin with e2e_ and are removed at its end. NEREID_SHOTS: folder for screenshots. NEREID_CHROMIUM: browser.
// NEREID_ENTRY, NEREID_ENTRY_TOKEN: the address of a server that asks this machine's browser for a token, and an admin token.
// NEREID_GPUS, NEREID_GPUS_FOLDER: a server on the stand-in of a machine with two GPUs, and the folder with their state.
// NEREID_PYTHON: a Python with tritonclient and pillow, to run the Python snippets that the page shows.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { alerting } from "./alerts.mjs";
import { capturing } from "./capturing.mjs";
import { charts } from "./charts.mjs";
import { comparing } from "./comparing.mjs";
import { composing } from "./composing.mjs";
import { configuring } from "./configuring.mjs";
import { converting } from "./converting.mjs";
import { details } from "./details.mjs";
import { edges } from "./edges.mjs";
import { entry } from "./entry.mjs";
import { everyPage } from "./everypage.mjs";
import { faces } from "./faces.mjs";
import { failing } from "./failing.mjs";
import { first, firstSteps } from "./first.mjs";
import { getting } from "./getting.mjs";
import { gpus } from "./gpus.mjs";
import { hardening } from "./hardening.mjs";
import { inside } from "./inside.mjs";
import { keyboard } from "./keyboard.mjs";
import { hall, kiosk } from "./kiosk.mjs";
import { logs } from "./logs.mjs";
import { requests } from "./requests.mjs";
import { needs } from "./needs.mjs";
import { runtime } from "./runtime.mjs";
import { settings } from "./settings.mjs";
import { tabs } from "./tabs.mjs";
import { trying } from "./trying.mjs";
import { tuning } from "./tuning.mjs";
import { api, axe, axeEverywhere, drop, editorText, eventually, open, patience, Report, root, setEditor, shot } from "./lib.mjs";

const base = (process.argv[2] ?? "").replace(/\/$/, "");
if (!/^https?:\/\//.test(base)) {
  console.error("usage: node e2e/run.mjs http://127.0.0.1:8003");
  process.exit(2);
}
const report = new Report();
const sample = (...p) => path.join(root, "models-sample", ...p);
const id = Date.now().toString(36);
const digits = `e2e_digits_${id}`;
const addSub = `e2e_add_sub_${id}`;
const tmp = fs.mkdtempSync(path.join(os.tmpdir(), "nereid-e2e-"));
const at = (name, tab = "") => `${base}/#/models/${name}${tab && "/" + tab}`;

const { browser, context, page } = await open(base, report);
const dialog = page.locator("dialog[open]");
const button = (name, scope = page) => scope.getByRole("button", { name });

await report.step("the page is live", async () => {
  await page.getByText("Live", { exact: true }).waitFor();
  report.check((await page.title()).includes("Nereid"), "the title names the program");
  await shot(page, "01-models");
});

await report.step("drop an .onnx file: name, signature, configuration", async () => {
  await drop(page, [sample("digits", "1", "model.onnx")]);
  await dialog.getByLabel("Model name").waitFor();
  await dialog.locator(".cm-line", { hasText: "input" }).first().waitFor();
  const text = await editorText(page);
  report.check(/input|dims|platform|backend/.test(text), `a configuration was generated: ${text}`);
  report.check(await dialog.getByText("image", { exact: true }).first().isVisible(), "the input of the file is shown");
  await dialog.getByText("No faults found").waitFor();
  report.check(await button("Load model", dialog).evaluate((el) => el === document.activeElement), "a model without faults is loaded with Enter");
  await axeEverywhere(page, report, "import dialog", "02-import");
});

await report.step("a fault is shown while typing, with its place", async () => {
  await dialog.getByLabel("Model name").fill(digits);
  const good = await editorText(page);
  await setEditor(page, good + "\nmax_batch_sise: 4\n");
  await dialog.getByRole("list", { name: "Faults" }).getByText("max_batch_sise").first().waitFor();
  report.check(await button("Load model", dialog).isDisabled(), "a configuration with errors cannot be loaded");
  await shot(page, "03-import-fault");
  await setEditor(page, good.trimEnd() + "\ninstance_group [ { count: 1 kind: KIND_CPU } ]\n");
  await dialog.getByText("No faults found").waitFor();
});

await report.step("load it with one click", async () => {
  await button("Load model", dialog).click();
  await dialog.getByText(`${digits} is ready`).waitFor();
  await shot(page, "04-loaded");
  await button("Try it", dialog).click();
  await page.getByRole("heading", { name: digits }).waitFor();
});

await report.step("G029 try it with a picture: upload it, see the result", async () => {
  await page.setInputFiles("input[accept='image/*']", sample("digits", "requests", "grey_28.png"));
  await page.getByText("tensor:").waitFor();
  await button("Send request").click();
  await page.locator("section", { hasText: "Result" }).locator("ol li").first().waitFor();
  await page.getByText(/queue [0-9.]+ (µs|ms)/).waitFor(); // the time on the server, from the reply or from the stream
  await shot(page, "05-try");
  const want = JSON.parse(fs.readFileSync(sample("digits", "requests", "grey_28.json"), "utf8"));
  const got = await page.locator("ol li .label").first().textContent();
  const answer = bestClass(want);
  report.check(answer === null || got.includes(String(answer)), `the best class is ${got}, the recorded one ${answer}`);
});

await report.step("every recorded picture gets its recorded class", async () => {
  const folder = sample("digits", "requests");
  for (const file of fs.readdirSync(folder).filter((f) => f.endsWith(".png"))) {
    const want = bestClass(JSON.parse(fs.readFileSync(path.join(folder, file.replace(".png", ".json")), "utf8")));
    await page.setInputFiles("input[accept='image/*']", path.join(folder, file));
    await page.getByText(`${file}: click for another`).waitFor();
    const [reply] = await Promise.all([page.waitForResponse((r) => r.url().includes("/api/infer/")), button("Send request").click()]);
    const got = bestClass(await reply.json());
    report.check(got === want, `${file}: the page gets class ${got}, the record says ${want}`);
  }
  await page.setInputFiles("input[accept='image/*']", path.join(folder, "grey_28.png"));
  await page.getByText("grey_28.png: click for another").waitFor();
});

await report.step("the same call by curl and Python answers the same", async () => {
  const want = String(bestClass(JSON.parse(fs.readFileSync(sample("digits", "requests", "grey_28.json"), "utf8"))));
  const folder = fs.mkdtempSync(path.join(tmp, "snippets-"));
  fs.copyFileSync(sample("digits", "requests", "grey_28.png"), path.join(folder, "grey_28.png"));
  const text = async (kind) => {
    await page.getByRole("button", { name: kind, exact: true }).click();
    return page.locator("pre[role=region]").textContent();
  };
  await text("curl");
  const [body] = await Promise.all([page.waitForEvent("download"), button("Save request.bin").click()]);
  await body.saveAs(path.join(folder, "request.bin"));
  const reply = JSON.parse(execFileSync("sh", ["-c", await text("curl")], { cwd: folder, stdio: ["ignore", "pipe", "ignore"] }).toString());
  report.check(String(bestClass(reply)) === want, `curl answers class ${bestClass(reply)}, want ${want}`);
  for (const kind of ["Python HTTP", "Python gRPC"]) {
    const program = await text(kind);
    report.check(program.includes(digits), `${kind} names the model`);
    if (!process.env.NEREID_PYTHON) continue;
    const best = "\nprint('BEST', int(result.as_numpy('scores').argmax()))\n";
    const out = execFileSync(process.env.NEREID_PYTHON, ["-c", program + best], { cwd: folder }).toString();
    report.check(out.includes(`BEST ${want}`), `${kind} answers ${out}`);
  }
});

await report.step("several pictures are sent as one batch, with an answer for each", async () => {
  const folder = sample("digits", "requests");
  const files = fs.readdirSync(folder).filter((f) => f.endsWith(".png")).slice(0, 4); // the largest batch of a model without a configuration
  const want = files.map((f) => String(bestClass(JSON.parse(fs.readFileSync(path.join(folder, f.replace(".png", ".json")), "utf8")))));
  await page.setInputFiles("input[accept='image/*']", files.map((f) => path.join(folder, f)));
  await page.getByRole("group", { name: `Batch of ${files.length} images` }).waitFor();
  await button("Send request").click();
  const items = page.getByRole("list", { name: `Batch of ${files.length} images` }).locator("> li");
  await items.nth(files.length - 1).waitFor();
  for (const [i, file] of files.entries()) {
    const got = [await items.nth(i).locator("b").first().textContent(), await items.nth(i).locator(".label").first().textContent()];
    report.check(got[0] === file && got[1].includes(want[i]), `the answer for ${file} is ${got}, the record says ${want[i]}`);
  }
  await shot(page, "05-batch");
  await axe(page, report, "batch of pictures");
  await button("Python HTTP").click();
  const program = await page.locator("pre[role=region]").textContent();
  if (process.env.NEREID_PYTHON) {
    const best = "\nprint('BEST', *result.as_numpy('scores').argmax(axis=1))\n";
    const out = execFileSync(process.env.NEREID_PYTHON, ["-c", program + best], { cwd: folder }).toString();
    report.check(out.includes(`BEST ${want.join(" ")}`), `Python answers ${out}`);
  }
});

await report.step("warm it up", async () => {
  await page.goto(at(digits));
  await button("Warm up").click();
  await page.getByText("settled (median").waitFor();
  const figures = await page.locator(".figures b").allTextContents();
  report.check(figures.length >= 2 && figures.every((f) => /[0-9.]+ ?(µs|ms|s|×)$/.test(f)), `first and settled latency: ${figures}`);
  await shot(page, "06-warmup");
  await axe(page, report, "overview");
});

await report.step("measure it under load, and find the result again", async () => {
  await page.goto(at(digits));
  const load = page.locator("section.load");
  await load.getByLabel("Clients from").fill("1");
  await load.getByLabel("to", { exact: true }).fill("3");
  await load.getByLabel("by", { exact: true }).fill("2");
  await load.getByRole("button", { name: "Start" }).click();
  await load.getByText(/^Measured /).waitFor({ timeout: 120_000 });
  const rows = await load.locator("tbody tr").allTextContents();
  report.check(rows.length === 2 && rows.every((r) => /\/s/.test(r) && /(µs|ms|s)/.test(r)), `a row for each level: ${rows.join(" | ")}`);
  await load.locator("svg[role=img]").waitFor();
  await shot(page, "06b-load-test");
  await axe(page, report, "load test");
  await page.reload();
  await load.getByText(/^Measured /).waitFor();
  await load.getByLabel("to", { exact: true }).fill("99");
  await load.getByLabel("by", { exact: true }).fill("1");
  await load.getByRole("button", { name: "Start" }).click();
  await load.getByText(/are more than 64/).waitFor();
  await load.getByLabel("to", { exact: true }).fill("60");
  await load.getByRole("button", { name: "Start" }).click();
  await load.getByRole("button", { name: "Stop" }).click();
  await load.getByText(/^Stopped after/).waitFor({ timeout: 30_000 });
});

await report.step("edit the configuration, see the difference, save and reload", async () => {
  await page.goto(at(digits, "config"));
  await page.locator(".cm-content").waitFor();
  const before = await editorText(page);
  await setEditor(page, before.replace(/\n+$/, "") + "\nversion_policy { latest { num_versions: 1 } }\n");
  await page.locator("td.add", { hasText: "version_policy" }).waitFor();
  await page.getByText("No faults found").waitFor();
  await shot(page, "07-config");
  await axe(page, report, "configuration");
  await button("Save and reload").click();
  await page.getByText("the new configuration serves").waitFor();
  await shot(page, "08-saved");
});

await report.step("completion and hover help come from the descriptor", async () => {
  await page.locator(".cm-content").click();
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type("\nver");
  await page.locator(".cm-tooltip-autocomplete", { hasText: "version_policy" }).waitFor();
  await shot(page, "09-completion");
  await page.keyboard.press("Escape");
  await button("Discard changes").click();
  const word = page.locator(".cm-line span", { hasText: "version_policy" }).first();
  const shown = await eventually(async () => {
    await page.mouse.move(0, 0);
    await word.hover();
    return page.locator(".cm-help").waitFor({ timeout: 3000 }).then(() => true, () => false);
  }, (ok) => ok);
  report.check(shown, "help shows where the mouse rests");
});

await report.step("revisions: undo the change", async () => {
  await page.goto(at(digits, "revisions"));
  await button("Undo this change").click();
  await page.getByText("the new configuration serves").waitFor();
  await shot(page, "10-revisions");
  await axe(page, report, "revisions");
  const m = await api(base, "GET", `/api/models/${digits}`);
  report.check(!m.configText.includes("version_policy"), "the undone line is gone from the file");
});

await report.step("charts show the traffic", async () => {
  await page.goto(at(digits, "charts"));
  await page.locator("figure canvas").first().waitFor();
  let shown = false;
  const sent = traffic(digits, () => shown);
  try {
    await page.waitForFunction(() => [...document.querySelectorAll("figure .legend b")].some((b) => /^[1-9]/.test(b.textContent ?? "")));
  } finally {
    shown = true;
    await sent;
  }
  await shot(page, "11-charts");
  await axe(page, report, "charts");
  await button("1 h").click();
  await page.locator("figure canvas").first().waitFor();
  await shot(page, "12-charts-1h");
});

let zip = "";
await report.step("download the model as a zip", async () => {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download as zip" }).click()]);
  zip = path.join(tmp, `${digits}.zip`);
  await download.saveAs(zip);
  const bytes = fs.readFileSync(zip);
  report.check(bytes.subarray(0, 2).toString() === "PK", "the download is a zip");
  report.check(bytes.includes(`${digits}/config.pbtxt`), "the zip has the model's folder with its configuration");
});

await report.step("drop a model folder: the name is taken, another one loads", async () => {
  await page.goto(base + "/#/models");
  const taken = (await api(base, "GET", "/api/models")).models.some((m) => m.name === "add_sub");
  await drop(page, [sample("add_sub")]);
  if (taken) await dialog.getByText("A model add_sub exists already").waitFor();
  await dialog.getByLabel("Model name").fill(addSub);
  await dialog.getByText("A model add_sub exists").waitFor({ state: "detached" });
  await dialog.getByText("No faults found").waitFor();
  await shot(page, "13-import-folder");
  await button("Load model", dialog).click();
  await dialog.getByText(`${addSub} is ready`).waitFor();
  await button("Try it", dialog).click();
  await button("Send request").click();
  await page.getByText("measured in this page").waitFor();
  await shot(page, "14-try-values");
});

await report.step("unload, load, remove and undo in the list", async () => {
  await page.goto(base + "/#/models");
  const accept = (d) => void d.accept(); // it has answered a request in the last minute
  page.on("dialog", accept);
  await button(`Unload ${addSub}`).click();
  await page.getByRole("button", { name: `Load ${addSub}`, exact: true }).click();
  await button(`Unload ${addSub}`).waitFor();
  await button(`Remove ${addSub}`).click();
  await page.getByText("was moved to the trash").waitFor();
  page.off("dialog", accept);
  await button("Undo").click();
  await page.getByText(`${addSub} is back in its repository`).waitFor();
});

await report.step("command palette by keyboard", async () => {
  await page.keyboard.press("ControlOrMeta+k");
  await page.keyboard.type("server");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Server", level: 1 }).waitFor();
});

await report.step("? shows the keys", async () => {
  await page.keyboard.press("?");
  await dialog.getByRole("heading", { name: "Keys" }).waitFor();
  await shot(page, "48-keys");
  await axe(page, report, "the keys");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
});

await comparing({ base, page, report });
await getting({ base, page, report, id });
await converting({ base, page, report });
await trying({ base, page, report, models: (await api(base, "GET", "/api/models")).models.map((m) => m.name) });
await first({ base, page, report, id });
if (process.argv[3]) await firstSteps({ empty: process.argv[3].replace(/\/$/, ""), report });
await configuring({ base, page, report, model: digits });
await failing({ base, page, report, model: "digits" }); // the tuner may have changed the other one's batch size
await needs({ base, page, report });
await tuning({ base, page, report, model: digits });
await runtime({ base, page, report });
await edges({ base, page, report, digits, zip });
await details({ base, page, report, model: digits });
await tabs({ base, context, report, model: "mlp" });
await faces({ base, page, report, id });
await composing({ base, page, report, id });
await alerting({ base, page, report, id });
await logs({ base, page, report, id });
await requests({ base, page, report });
await charts({ base, page, report, models: ["add_sub", "mlp"] });
await settings({ base, http: `http://${(await api(base, "GET", "/api/server")).addresses.http}`, page, report });
await capturing({ base, page, report, model: digits });
await inside({ base, page, report, model: digits });
await kiosk({ at: process.argv[4], report });
await hall({ at: process.env.NEREID_HALL, pid: process.env.NEREID_HALL_PID, report });
await entry({ at: process.env.NEREID_ENTRY, token: process.env.NEREID_ENTRY_TOKEN, why: process.env.NEREID_ENTRY_WHY ?? "no NEREID_ENTRY", report });
await gpus({ at: process.env.NEREID_GPUS, folder: process.env.NEREID_GPUS_FOLDER, why: process.env.NEREID_GPUS_WHY ?? "no NEREID_GPUS", report });
await keyboard({ base, report, id, kiosk: process.argv[4] });
await hardening({ base, page, report, model: digits });

await everyPage({ base, page, report, model: digits });

await report.step("the page in 简体中文", async () => {
  await page.goto(base + "/#/models");
  await page.locator("aside select").selectOption("zh");
  await page.getByRole("heading", { name: "模型", level: 1 }).waitFor();
  await shot(page, "30-chinese");
  await page.goto(at(digits, "config"));
  await page.locator(".cm-content").waitFor();
  const before = await editorText(page);
  await setEditor(page, before + "\nmax_batch_sise: 4\n");
  await page.getByText('模型配置没有名为 "max_batch_sise" 的字段').first().waitFor();
  await page.getByRole("button", { name: "改为 max_batch_size" }).waitFor();
  await shot(page, "30-chinese-fault");
  await setEditor(page, before);
  await page.getByText("未发现问题").waitFor();
  const { addresses } = await api(base, "GET", "/api/server");
  const wrong = { inputs: [{ name: "wrong", shape: [1], datatype: "FP32", data: [1] }] };
  await fetch(`http://${addresses.http}/v2/models/${digits}/infer`, { method: "POST", body: JSON.stringify(wrong) });
  await page.goto(`${base}/#/requests?show=refused&model=${digits}`);
  await page.getByText(`没有推理输入 'wrong'`).or(page.getByText("缺少必需的输入")).first().waitFor(); // an error of the engine
});

await report.step("clean up", async () => {
  const there = (await api(base, "GET", "/api/models")).models.map((m) => m.name);
  for (const name of there.filter((n) => n === digits || n === addSub)) await api(base, "DELETE", `/api/models/${name}`);
});

await report.step("G025 nothing was asked of another place than the server", async () => {
  report.check(report.asked > 50, `the page asked for ${report.asked} things`);
  report.check(report.elsewhere.length === 0, `asked elsewhere: ${report.elsewhere}`);
});

await browser.close();
fs.rmSync(tmp, { recursive: true });
console.log(report.failures.length ? `${report.failures.length} failed:\n- ${report.failures.join("\n- ")}` : `all passed (${report.passed} checks)`);
process.exit(report.failures.length ? 1 : 0);

/** Sends requests until done() is true. */
async function traffic(model, enough) {
  const body = JSON.stringify({ inputs: [{ name: "image", shape: [1, 1, 28, 28], datatype: "FP32", data: new Array(784).fill(0) }] });
  for (const end = Date.now() + 2 * patience; !enough() && Date.now() < end; ) await api(base, "POST", `/api/infer/${model}`, body, { "Content-Type": "application/json" });
}

/** The class with the best score of a recorded answer; null when the record has another form. */
function bestClass(record) {
  const scores = record.outputs?.[0]?.data ?? record.scores ?? record.answer?.outputs?.[0]?.data;
  if (!Array.isArray(scores)) return null;
  const flat = scores.flat(Infinity).slice(0, 10);
  return flat.indexOf(Math.max(...flat));
}
