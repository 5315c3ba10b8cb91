// Failures as a user meets them: each must say what failed and why, and must not affect models in service.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { api, axe, drop, editorText, eventually, root, setEditor, shot } from "./lib.mjs";

/** Replaces a file atomically. */
function replaceFile(file, content) {
  fs.writeFileSync(file + ".tmp", content);
  fs.renameSync(file + ".tmp", file);
}

/** digits is a loaded model of the run; zip its download. */
export async function edges({ base, page, report, digits, zip }) {
  const dialog = page.locator("dialog[open]");
  const button = (name, scope = page) => scope.getByRole("button", { name });
  const tmp = fs.mkdtempSync(path.join(os.tmpdir(), "nereid-e2e-"));
  const models = async () => (await api(base, "GET", "/api/models")).models.map((m) => m.name).sort();
  const before = await models();
  const home = () => page.goto(base + "/#/models");

  await report.step("a file that is no ONNX model is refused with a reason", async () => {
    await home();
    const junk = path.join(tmp, "junk.onnx");
    fs.writeFileSync(junk, "this is no model");
    await drop(page, [junk]);
    await dialog.locator(".note.error, li.error").first().waitFor();
    await shot(page, "40-junk");
    await axe(page, report, "refused import");
    await button("Close", dialog).first().click();
    await dialog.waitFor({ state: "detached" });
  });

  await report.step("a folder with code asks first", async () => {
    await home();
    const folder = path.join(tmp, "with_code");
    fs.mkdirSync(path.join(folder, "1"), { recursive: true });
    fs.writeFileSync(path.join(folder, "1", "model.py"), "print('hello')\n");
    fs.copyFileSync(path.join(root, "models-sample", "digits", "1", "model.onnx"), path.join(folder, "1", "model.onnx"));
    fs.writeFileSync(path.join(folder, "config.pbtxt"), 'backend: "onnxruntime"\n');
    await drop(page, [folder]);
    await dialog.getByText("contains code that runs on this machine").waitFor();
    report.check(await button("Load model", dialog).isDisabled(), "code is not loaded without consent");
    await shot(page, "41-code");
    await axe(page, report, "import with code");
    await button("Cancel", dialog).click();
    await dialog.waitFor({ state: "detached" });
  });

  await report.step("a model of a backend that is not there is not offered to run", async () => {
    await home();
    const folder = path.join(tmp, "of_tensorrt");
    fs.mkdirSync(path.join(folder, "1"), { recursive: true });
    fs.writeFileSync(path.join(folder, "1", "model.plan"), "plan");
    await drop(page, [folder]);
    await dialog.locator("footer").getByText("backend 'tensorrt' runs engines that TensorRT has built").waitFor();
    report.check((await dialog.getByRole("checkbox").count()) === 0, "nobody is asked to trust what cannot run");
    report.check(await button("Load model", dialog).isDisabled(), "a model without a backend is not loaded");
    await shot(page, "41-no-backend");
    await axe(page, report, "import without a backend");
    await button("Cancel", dialog).click();
    await dialog.waitFor({ state: "detached" });
  });

  await report.step("a downloaded zip can be dropped again, under its own name or another", async () => {
    await home();
    await drop(page, [zip]);
    await dialog.getByText(`A model ${digits} exists already`).waitFor();
    report.check(await button("Replace and load", dialog).isDisabled(), "a model is not replaced without asking");
    await shot(page, "42-zip");
    await dialog.getByLabel("Replace it").check();
    await button("Replace and load", dialog).click();
    await dialog.getByText(`${digits} is ready`).waitFor();
    await button("Open", dialog).click();
    await page.getByRole("heading", { name: digits }).waitFor();
  });

  await report.step("a zip of several models is imported one after the other, ensembles last", async () => {
    const store = path.join(tmp, "store"), [all, part] = ["all", "part"].map((n) => `${n}_${digits}`);
    fs.cpSync(path.join(root, "models-sample", "identity_fp32"), path.join(store, part), { recursive: true });
    fs.rmSync(path.join(store, part, "config.pbtxt")); // it has the model's own name
    fs.mkdirSync(path.join(store, all, "1"), { recursive: true });
    fs.writeFileSync(path.join(store, all, "config.pbtxt"), `platform: "ensemble" max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 16 ] }
ensemble_scheduling { step [ { model_name: "${part}" model_version: -1
  input_map { key: "INPUT0" value: "x" } output_map { key: "OUTPUT0" value: "y" } } ] }
`);
    execFileSync(process.env.NEREID_PYTHON ?? "python3", ["-m", "zipfile", "-c", `${store}.zip`, store]);
    await home();
    await drop(page, [`${store}.zip`]);
    await dialog.getByRole("heading", { name: /1 of 2/ }).waitFor();
    await shot(page, "43-several-models");
    await button("Load model", dialog).click();
    await dialog.getByText(`${part} is ready`).waitFor();
    await button("Next model", dialog).click();
    await dialog.getByRole("heading", { name: /2 of 2/ }).waitFor();
    await button("Load model", dialog).click();
    await dialog.getByText(`${all} is ready`).waitFor();
    await button("Open", dialog).click();
    await page.getByRole("heading", { name: all }).waitFor();
    for (const name of [all, part]) await api(base, "DELETE", `/api/models/${name}`);
  });

  await report.step("a configuration that cannot be loaded leaves the old one in service", async () => {
    await page.goto(`${base}/#/models/${digits}/config`);
    await page.locator(".cm-line", { hasText: "max_batch_size" }).waitFor();
    const good = await editorText(page);
    await setEditor(page, good.trimEnd() + "\n# a change that is right\n");
    await page.getByText("No faults found").waitFor();
    // The text is valid, but the model file becomes invalid: only the load notices.
    const file = path.join((await api(base, "GET", `/api/models/${digits}`)).folder, "1", "model.onnx");
    const kept = fs.readFileSync(file);
    replaceFile(file, "this is no model");
    await button("Save and reload").click();
    // It is either refused before it is written or written and not loaded; both say why.
    // The page may also show a message that the server saw the file change.
    const note = page.locator(".note.error:not(.reason)", { hasText: /was not saved|keeps serving/ }).first();
    await note.waitFor();
    report.check(/model\.onnx/.test(await note.textContent()), `the reason names the file: ${await note.textContent()}`);
    await shot(page, "43-save-failed");
    await axe(page, report, "failed save");
    const failing = await api(base, "GET", `/api/models/${digits}`);
    report.check(failing.state === "READY", `${digits} still serves`);
    replaceFile(file, kept);
    const undo = page.locator(".note", { hasText: "keeps serving" }).getByRole("button", { name: "Undo" });
    if (await undo.isVisible()) {
      await undo.click();
      await page.getByText("the new configuration serves").waitFor();
    } else {
      await button("Check again").click();
      await page.getByText("No faults found").waitFor(); // the file is valid again
      await button("Discard changes").click();
    }
    const after = await api(base, "GET", `/api/models/${digits}`);
    report.check(!after.configText.includes("a change that is right"), "the file is as before");
  });

  await report.step("a wrong request shows the server's own words", async () => {
    await page.goto(`${base}/#/models/${digits}/try`);
    await button("Values (JSON)").click();
    await page.getByLabel("Values of image").fill("[1, 2, 3]");
    await page.getByText("3 values given, but the shape needs 784").waitFor();
    report.check(await button("Send request").isDisabled(), "a wrong form is not sent");
    await shot(page, "44-wrong-values");
  });

  await report.step("leaving an unsaved configuration asks", async () => {
    await page.goto(`${base}/#/models/${digits}/config`);
    await page.locator(".cm-line", { hasText: "max_batch_size" }).waitFor();
    await page.locator(".cm-content").click();
    await page.keyboard.type("# mine");
    await page.getByText("changed, not saved").waitFor();
    let asked = "";
    page.once("dialog", (d) => {
      asked = d.message();
      void d.dismiss();
    });
    await page.getByRole("link", { name: "History" }).click();
    await eventually(() => asked, (text) => text !== "");
    report.check(asked.includes("unsaved changes"), `the page asked: ${asked}`);
    const url = await eventually(() => page.url(), (u) => u.endsWith("/config"));
    report.check(url.endsWith("/config") && (await page.locator(".cm-line", { hasText: "# mine" }).count()) > 0, `the page stayed: ${url}`);
    await button("Discard changes").click();
  });

  await report.step("nothing was added by what was refused", async () => {
    const after = await models();
    report.check(JSON.stringify(after) === JSON.stringify(before), `the models are as before: ${before} and now ${after}`);
  });
  fs.rmSync(tmp, { recursive: true });
}
