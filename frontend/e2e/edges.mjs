// What goes wrong, as a user meets it: each case must say what and why, and change nothing that serves.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { api, axe, drop, editorText, setEditor, shot } from "./lib.mjs";

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
    fs.writeFileSync(path.join(folder, "config.pbtxt"), 'backend: "python"\n');
    await drop(page, [folder]);
    await dialog.getByText("contains code that runs on this machine").waitFor();
    report.check(await button("Load model", dialog).isDisabled(), "code is not loaded without consent");
    await shot(page, "41-code");
    await axe(page, report, "import with code");
    await button("Cancel", dialog).click();
    await dialog.waitFor({ state: "detached" });
  });

  await report.step("a downloaded zip can be dropped again, under its own name or another", async () => {
    await home();
    await drop(page, [zip]);
    await dialog.getByText(`There is a model ${digits} already`).waitFor();
    report.check(await button("Replace and load", dialog).isDisabled(), "a model is not replaced without asking");
    await shot(page, "42-zip");
    await dialog.getByLabel("Replace it").check();
    await button("Replace and load", dialog).click();
    await dialog.getByText(`${digits} is ready`).waitFor({ timeout: 30_000 });
    await button("Open", dialog).click();
    await page.getByRole("heading", { name: digits }).waitFor();
  });

  await report.step("a configuration that cannot be loaded leaves the old one in service", async () => {
    await page.goto(`${base}/#/models/${digits}/config`);
    await page.locator(".cm-line", { hasText: "max_batch_size" }).waitFor();
    const good = await editorText(page);
    // The text is right and the file is there; only the runtime finds out that it is no model.
    const m = await api(base, "GET", `/api/models/${digits}`);
    fs.writeFileSync(path.join(m.folder, "1", "broken.onnx"), "this is no model");
    await setEditor(page, good.replace(/default_model_filename: "[^"]*"/, 'default_model_filename: "broken.onnx"'));
    await page.waitForTimeout(600); // the check of the text
    if (await button("Save and reload").isEnabled()) {
      await button("Save and reload").click();
      await page.getByText("the old configuration keeps serving").waitFor({ timeout: 30_000 });
      await shot(page, "43-save-failed");
      await axe(page, report, "failed save");
      await button("Undo").click();
      await page.getByText("the new configuration serves").waitFor({ timeout: 30_000 });
    } else {
      await shot(page, "43-save-refused");
      await button("Discard changes").click();
    }
    const after = await api(base, "GET", `/api/models/${digits}`);
    report.check(after.state === "READY", `${digits} still serves`);
    report.check(!after.configText.includes("broken.onnx"), "the file is as before");
    fs.rmSync(path.join(m.folder, "1", "broken.onnx"));
  });

  await report.step("a wrong request shows the server's own words", async () => {
    await page.goto(`${base}/#/models/${digits}/try`);
    await button("Values (JSON)").click();
    await page.getByLabel("Values of image").fill("[1, 2, 3]");
    await page.getByText("3 values given, the shape wants 784").waitFor();
    report.check(await button("Send request").isDisabled(), "a wrong form is not sent");
    await shot(page, "44-wrong-values");
  });

  await report.step("leaving an unsaved configuration asks", async () => {
    await page.goto(`${base}/#/models/${digits}/config`);
    await page.locator(".cm-line", { hasText: "max_batch_size" }).waitFor();
    await page.locator(".cm-content").click();
    await page.keyboard.type("# mine");
    let asked = "";
    page.once("dialog", (d) => {
      asked = d.message();
      void d.dismiss();
    });
    await page.getByRole("link", { name: "History" }).click();
    await page.waitForTimeout(200);
    report.check(asked.includes("not saved"), `the page asked: ${asked}`);
    report.check(page.url().endsWith("/config"), "the page stayed");
    await button("Discard changes").click();
  });

  await report.step("nothing was added by what was refused", async () => {
    report.check(JSON.stringify(await models()) === JSON.stringify(before), `the models are as before: ${await models()}`);
  });
  fs.rmSync(tmp, { recursive: true });
}
