// What a new user meets: the first steps on a server without models, saved requests in "Try it".
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { api, axe, drop, open, root, shot } from "./lib.mjs";

/** Makes a model of its own, named with id, and removes it. */
export async function first({ base, page, report, id }) {
  const name = `e2e_first_${id}`;
  const at = `${base}/#/models/${name}/try`;
  const dialog = page.locator("dialog[open]");
  const button = (text, scope = page) => scope.getByRole("button", { name: text });
  const choose = page.getByLabel("Saved requests");

  await report.step("saved requests: those of the model's folder are sent, and answered as recorded", async () => {
    await page.goto(`${base}/#/models`);
    await drop(page, [path.join(root, "models-sample", "add_sub")]);
    await dialog.getByLabel("Model name").fill(name);
    await button("Load model", dialog).click();
    await dialog.getByText(`${name} is ready`).waitFor();
    await button("Try it", dialog).click();
    for (const request of ["one_row", "three_rows"]) {
      const want = JSON.parse(fs.readFileSync(path.join(root, "models-sample/add_sub/requests", `${request}.json`), "utf8"));
      await choose.selectOption(request);
      await page.waitForFunction(([text]) => [...document.querySelectorAll("textarea")].some((a) => a.value === text), [JSON.stringify(want.inputs[0].data)]);
      const [reply] = await Promise.all([page.waitForResponse((r) => r.url().includes("/api/infer/")), button("Send request").click()]);
      const got = (await reply.json()).outputs.map((o) => o.data.flat());
      report.check(JSON.stringify(got) === JSON.stringify(want.outputs.map((o) => o.data)), `${request}: ${JSON.stringify(got)}`);
    }
    await shot(page, "40-saved");
    await axe(page, report, "saved requests");
  });

  await report.step("saved requests: the form is saved by keyboard, found again, and replaced only after a question", async () => {
    await page.getByLabel("Values of INPUT0").fill("[7]");
    await button("Save as").focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type("my_own");
    await page.keyboard.press("Enter");
    await page.getByText("Saved as requests/my_own.json").waitFor();
    const { text } = await api(base, "GET", `/api/models/${name}/requests/my_own`);
    report.check(JSON.parse(text).inputs[0].data.every((v) => v === 7), `the file has the values: ${text}`);
    const sent = await api(base, "POST", `/api/infer/${name}`, text, { "Content-Type": "application/json" });
    report.check(sent.outputs.length === 2, "the file is a request as it is");
    await page.goto(`${base}/#/models`);
    await page.goto(at);
    await choose.selectOption("my_own");
    const refuse = (d) => void d.dismiss();
    page.once("dialog", refuse);
    await button("Save as").click();
    await page.getByLabel("Name", { exact: true }).fill("one_row");
    await button("Save", page).last().click();
    await page.getByRole("alert").getByText("choose another name").waitFor();
    await page.getByLabel("Name", { exact: true }).fill("../config");
    await button("Save", page).last().click();
    await page.getByRole("alert").getByText("no path separators").waitFor();
    const model = await api(base, "GET", `/api/models/${name}`);
    report.check(model.versions[0].state === "READY" && model.files.some((f) => f.path === "requests/my_own.json"), "the model serves, and has the file");
  });

  const named = `e2e_labels_${id}`;
  await report.step("labels in an ONNX file's metadata, and labels dropped with it, are the answer's class names", async () => {
    const tmp = fs.mkdtempSync(path.join(os.tmpdir(), "nereid-labels-"));
    const onnx = path.join(tmp, "net.onnx");
    const words = ["nil", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove"];
    const property = message(14, [...message(1, text("names")), ...message(2, text(`{${words.map((w, i) => `${i}: '${w}'`).join(", ")}}`))]);
    fs.writeFileSync(onnx, Buffer.concat([fs.readFileSync(path.join(root, "models-sample/digits/1/model.onnx")), Buffer.from(property)]));
    fs.writeFileSync(path.join(tmp, "my_labels.txt"), words.map((w) => w.toUpperCase()).join("\n"));
    const request = fs.readFileSync(path.join(root, "models-sample/digits/requests/grey_28_zero.json"), "utf8");
    for (const [files, file, best] of [[[onnx], "labels.txt", "nil"], [[onnx, path.join(tmp, "my_labels.txt")], "my_labels.txt", "NIL"]]) {
      await page.goto(`${base}/#/models`);
      await drop(page, files);
      await dialog.getByLabel("Model name").fill(named);
      await dialog.locator(".cm-line", { hasText: `label_filename: "${file}"` }).waitFor();
      await dialog.getByText("No faults found").waitFor();
      await button("Load model", dialog).click();
      await dialog.getByText(`${named} is ready`).waitFor();
      await api(base, "PUT", `/api/models/${named}/requests/zero`, JSON.stringify({ text: request }), { "Content-Type": "application/json" });
      await button("Try it", dialog).click();
      await choose.selectOption("zero");
      await page.waitForFunction(() => document.querySelector("textarea")?.value.length > 1000);
      await button("Send request").click();
      await page.locator("ol li .label", { hasText: best }).first().waitFor();
      await shot(page, `42-labels-${best}`);
      await api(base, "DELETE", `/api/models/${named}`);
    }
    fs.rmSync(tmp, { recursive: true });
  });

  await report.step("saved requests: remove the model", async () => {
    await api(base, "DELETE", `/api/models/${name}`);
  });
}

const text = (s) => [...new TextEncoder().encode(s)];
/** A field of a protocol buffer with less than 16,384 bytes. */
const message = (number, bytes) => [(number << 3) | 2, ...(bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7]), ...bytes];

/** empty: the address of a server whose repository is empty and writable. */
export async function firstSteps({ empty, report }) {
  const before = report.page;
  const { browser, page } = await open(empty, report);
  const dialog = page.locator("dialog[open]");
  const tour = page.getByRole("region", { name: "First steps" });
  const next = (text) => tour.locator("[aria-current=step]", { hasText: text }).waitFor();
  /** Presses a button or link by keyboard alone. */
  const press = async (what) => {
    await what.focus();
    await page.keyboard.press("Enter");
  };

  await report.step("first steps: an empty page offers a drop and samples, in both themes and on a phone", async () => {
    await next("Drop a model or take a sample");
    for (const [name, colorScheme, width] of [["light", "light", 1280], ["dark", "dark", 1280], ["phone", "light", 390], ["phone-dark", "dark", 390]]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 860 });
      await shot(page, `41-first-${name}`);
      await axe(page, report, `first steps (${name})`);
    }
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.emulateMedia({ colorScheme: "light" });
    await press(page.getByRole("link", { name: "Small models of the gallery" }));
    await page.getByRole("heading", { name: "Gallery" }).waitFor();
    await page.goto(`${empty}/#/models`);
    await next("Drop a model or take a sample");
  });

  await report.step("first steps: by keyboard from a sample to an answer and its charts", async () => {
    await press(page.getByRole("button", { name: "Take it: digits" }));
    await dialog.getByText("No faults found").waitFor();
    await page.keyboard.press("Enter"); // "Load model" has the focus
    await dialog.getByText("digits is ready").waitFor();
    await press(dialog.getByRole("button", { name: "Try it" }));
    await next("Try it");
    await page.getByLabel("Saved requests").focus();
    await page.getByLabel("Saved requests").selectOption("grey_28");
    await page.waitForFunction(() => document.querySelector("textarea")?.value.length > 1000);
    await press(page.getByRole("button", { name: "Send request" }));
    await page.locator("ol li .label").first().waitFor();
    await next("See its charts");
    await shot(page, "41-first-tried");
    await axe(page, report, "first steps, tried");
    await press(tour.getByRole("link", { name: "See its charts" }));
    await page.locator("figure canvas").first().waitFor();
    await tour.getByText("That is the way of every model").waitFor();
    await shot(page, "41-first-done");
  });

  await report.step("first steps: closed is remembered", async () => {
    await press(tour.getByRole("button", { name: "Close the first steps" }));
    await tour.waitFor({ state: "detached" });
    await api(empty, "DELETE", "/api/models/digits");
    await page.goto(`${empty}/#/models`);
    await page.reload();
    await page.getByRole("button", { name: "Take it: add_sub" }).waitFor();
    report.check((await tour.count()) === 0, "the steps stay closed");
  });

  await browser.close();
  report.page = before;
}
