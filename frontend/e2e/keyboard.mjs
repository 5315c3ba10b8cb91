// The main job of each page by keyboard alone: Tab, Enter, Space, arrows and letters. Nothing is clicked, and no element is
// focused by the test.
import fs from "node:fs";
import path from "node:path";
import { api, editorText, eventually, open, root, shot } from "./lib.mjs";

/** What a person does at a page with the keyboard. */
function keysOf(base, page, report) {
  const button = (text, scope = page) => scope.getByRole("button", { name: text, exact: true });
  const press = (...keys) => keys.reduce((done, key) => done.then(() => page.keyboard.press(key)), Promise.resolve());
  /**
   * Presses Tab until the element has the focus, or Shift+Tab if it comes before the one that has it. After a Tab that leaves
   * the page for the bars of the browser, Firefox's driver presses no buttons by key.
   */
  const tab = async (to) => {
    await to.waitFor();
    for (let i = 0; i < 400; i++) {
      const way = await to.evaluate((el) => {
        const now = document.activeElement;
        if (el === now) return "";
        return now !== document.body && now.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_PRECEDING ? "Shift+Tab" : "Tab";
      });
      if (way === "") return;
      await press(way);
    }
    throw new Error(`Tab does not reach ${to}`);
  };
  const enter = async (to) => (await tab(to), press("Enter"));
  const space = async (to) => (await tab(to), press("Space"));
  /** Opens the dialog for files, and chooses. */
  const pick = async (opens, files) => {
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), enter(opens)]);
    await chooser.setFiles(files);
  };
  /** Replaces what is in a field. */
  const type = async (to, text) => {
    await tab(to);
    await press("ControlOrMeta+a");
    await page.keyboard.type(text);
  };
  /** Chooses an option of a list by the arrows. */
  const choose = async (list, value) => {
    await tab(list);
    await press("Home");
    for (let i = 0; i < 100 && (await list.inputValue()) !== value; i++) await press("ArrowDown");
    report.check((await list.inputValue()) === value, `the arrows choose ${value}, not ${await list.inputValue()}`);
  };
  /** A step, which ends with the check that no mouse was used. */
  const step = (what, f) => report.step(`by keyboard: ${what}`, async () => {
    await f();
    const used = await page.evaluate(() => globalThis.pointed ?? []);
    report.check(used.length === 0, `the mouse was used: ${used}`);
  });
  const at = async (hash, ready) => {
    await page.goto(`${base}/#/${hash}`);
    await ready.first().waitFor();
    // Reloaded, so that the first Tab is the first element of the page.
    await page.reload();
    await ready.first().waitFor();
    await page.evaluate(() => {
      globalThis.pointed = [];
      for (const e of ["pointerdown", "mousedown", "touchstart"]) addEventListener(e, (x) => globalThis.pointed.push(x.type), true);
    });
  };
  return { button, press, tab, enter, space, pick, type, choose, step, at };
}

/**
 * The server follows its repository (poll mode) and has the models of models-sample. kiosk: the address of its public page.
 * The browser is a new one: in the one that earlier steps used, the driver of Firefox presses no buttons by key.
 */
export async function keyboard({ base, report, id, kiosk }) {
  const before = report.page;
  const { browser, page } = await open(base, report);
  const name = `e2e_keys_${id}`;
  const versions = `${name}_two`;
  const dialog = page.locator("dialog[open]");
  const { button, press, tab, enter, space, pick, type, choose, step, at } = keysOf(base, page, report);
  const repo = (await api(base, "GET", "/api/server")).repositories[0].path;

  /** Adds a line to the end of the configuration. */
  const append = async (line) => {
    await tab(page.locator(".cm-content"));
    await press("ControlOrMeta+End");
    await page.keyboard.insertText(`\n${line}\n`);
  };
  await step("a file is imported and loaded", async () => {
    await at("models", button("Import model"));
    await pick(button("Import model"), path.join(root, "models-sample/digits/1/model.onnx"));
    await type(dialog.getByLabel("Model name"), name);
    await dialog.getByText("No faults found").waitFor();
    await enter(button("Load model", dialog));
    await dialog.getByText(`${name} is ready`).waitFor();
    await enter(button("Open", dialog));
    await page.getByRole("heading", { name, level: 1 }).waitFor();
  });

  await step("a request is tried", async () => {
    await at("models/add_sub/try", page.getByLabel("Values of INPUT0"));
    await type(page.getByLabel("Values of INPUT0"), `[${Array(16).fill(3)}]`);
    await type(page.getByLabel("Values of INPUT1"), `[${Array(16).fill(4)}]`);
    await enter(button("Send request"));
    await page.locator("section", { hasText: "Result" }).getByText(/\b7\b/).first().waitFor();
  });

  await step("a configuration is edited, saved, and the change undone", async () => {
    await at(`models/${name}/config`, page.locator(".cm-line"));
    await append("version_policy { latest { num_versions: 1 } }");
    await page.getByText("No faults found").waitFor();
    await enter(button("Save and reload"));
    await page.getByText("the new configuration serves").waitFor();
    await enter(page.getByRole("navigation", { name: "Model pages" }).getByRole("link", { name: "Revisions" }));
    await enter(button("Undo this change").first());
    await page.getByText("the new configuration serves").last().waitFor();
    report.check(!(await api(base, "GET", `/api/models/${name}`)).configText.includes("version_policy"), "the line is gone");
  });

  await step("a model is warmed up, and measured under load", async () => {
    await at(`models/${name}`, button("Warm up"));
    await enter(button("Warm up"));
    await page.getByText("settled (median").waitFor();
    const load = page.locator("section.load");
    await type(load.getByLabel("Clients from"), "1");
    await type(load.getByLabel("to", { exact: true }), "1");
    await enter(button("Start", load));
    await load.getByText(/^Measured /).waitFor();
  });

  await step("a model is tuned", async () => {
    await at(`models/${name}/tune`, page.getByText(/At most \d+ of .* possible measurements/));
    await enter(button("brute"));
    await enter(page.getByText("Values to try, and the requests for measuring"));
    await type(page.getByLabel("Window, ms"), "50");
    for (const field of ["max batch size", "dynamic batching", "threads"]) {
      if (await page.getByLabel(field, { exact: true }).isVisible()) await type(page.getByLabel(field, { exact: true }), "present");
    }
    await type(page.getByLabel("instances", { exact: true }), "2");
    await type(page.getByLabel("clients", { exact: true }), "1");
    await page.getByText(/measurements?; about/).waitFor();
    await enter(button("Start tuning"));
    await page.locator("section.result").getByRole("heading", { name: /^Tuned/ }).waitFor();
    await tab(page.locator("section.result tbody input[type=radio]:checked").or(page.locator("section.result tbody input[type=radio]").first()).first());
  });

  await step("the graph of a model is searched", async () => {
    await at(`models/${name}/inside`, page.getByText("ONNX opset 17"));
    await enter(button("Show"));
    await page.locator("g.box.node").first().waitFor();
    await type(page.getByLabel("Find an operator"), "gemm");
    await press("Enter");
    await page.getByText("FP32 [64, 2352]").or(page.getByText("FP32 [2352, 64]")).first().waitFor();
  });

  await step("the range of the charts is chosen", async () => {
    await at(`models/${name}/charts`, page.locator("figure canvas"));
    await enter(button("1 h"));
    await page.waitForURL(/range=1h/);
    await space(page.getByLabel("log scale"));
    await page.waitForURL(/log=1/);
  });

  await step("a rule of the alerts is changed", async () => {
    await at(`models/${name}/alerts`, page.getByLabel("Limit: Failures"));
    await type(page.getByLabel("Limit: Failures"), "42.5");
    await space(page.getByRole("checkbox", { name: /^Queue/ }));
    await enter(button("Save rules"));
    await page.getByText("The rules are saved").first().waitFor();
    const { rules } = await api(base, "GET", `/api/models/${name}/alerts`);
    report.check(rules.find((r) => r.kind === "failures").limit === 0.425 && !rules.find((r) => r.kind === "queue").on, `kept: ${JSON.stringify(rules)}`);
  });

  await step("requests are filtered, and one is opened", async () => {
    await api(base, "POST", "/api/infer/add_sub", JSON.stringify({ id: `keys-${id}`, inputs: ["INPUT0", "INPUT1"].map((n) => ({ name: n, shape: [1, 16], datatype: "FP32", data: Array(16).fill(1) })) }), { "Content-Type": "application/json" });
    await at("requests", page.getByRole("table", { name: "Requests" }).locator("tr.one"));
    await choose(page.getByLabel("Model", { exact: true }), "add_sub");
    await type(page.getByLabel("Search"), `keys-${id}`);
    const rows = page.getByRole("table", { name: "Requests" }).locator("tr.one");
    await eventually(() => rows.count(), (n) => n === 1);
    await enter(rows.getByRole("button").first());
    await page.getByText(/It ran alone in add_sub/).waitFor();
    await shot(page, "76-keyboard-request");
  });

  await step("the log is filtered", async () => {
    await at("logs", page.locator("main li .stamp"));
    await choose(page.getByLabel("Level"), "info");
    await type(page.getByLabel("Filter by text"), `successfully loaded '${name}'`);
    const lines = page.getByRole("region", { name: "Lines of the log" }).locator("li");
    await eventually(async () => (await lines.allInnerTexts()).every((x) => x.includes(name)), (ok) => ok);
    report.check((await lines.count()) > 0, "the line of the load is shown");
  });

  await step("the history is grouped", async () => {
    await at("history", page.locator("figure canvas"));
    await enter(button("24 h"));
    await space(page.getByLabel("group repeated ones"));
    await page.locator("main td.text").first().waitFor();
  });

  await step("several models are selected, unloaded and loaded", async () => {
    await at("models", page.getByRole("checkbox", { name: `Select ${name}`, exact: true }));
    await space(page.getByRole("checkbox", { name: `Select ${name}`, exact: true }));
    page.on("dialog", accept); // it has had requests
    await enter(button("Unload selected"));
    await page.getByText("1 model is unloaded.").or(page.getByText("1 models are unloaded.")).waitFor();
    page.off("dialog", accept);
    await enter(button("Load or reload"));
    await eventually(async () => (await api(base, "GET", `/api/models/${name}`)).state, (s) => s === "READY");
  });

  await step("two versions are compared", async () => {
    const folder = path.join(repo, `.${versions}`);
    fs.cpSync(path.join(root, "models-sample/add_sub"), folder, { recursive: true });
    fs.cpSync(path.join(folder, "1"), path.join(folder, "2"), { recursive: true });
    const config = path.join(folder, "config.pbtxt");
    fs.writeFileSync(config, `${fs.readFileSync(config, "utf8").replace(/^name:.*$/m, "").replace(/^version_policy.*$/m, "")}\nversion_policy { all {} }\n`);
    fs.renameSync(folder, path.join(repo, versions));
    await eventually(async () => (await api(base, "GET", "/api/models")).models.find((m) => m.name === versions)?.versions.filter((v) => v.state === "READY").length, (n) => n === 2);
    const panel = page.getByRole("region", { name: "Compare versions" });
    await at(`models/${versions}/try`, panel);
    await type(page.getByLabel("Values of INPUT0"), `[${Array(16).fill(3)}]`);
    await enter(button("Compare", panel));
    await panel.getByText(/elements differ|equal|same/i).first().waitFor();
  });

  await step("a candidate gets copies of requests, is discarded, and promoted", async () => {
    await api(base, "POST", `/api/models/${versions}/versions/2/unload`);
    const panel = page.getByRole("region", { name: "Candidate version" });
    await at(`models/${versions}`, panel);
    await choose(panel.getByLabel("Answers agree if"), "equal");
    await type(panel.getByLabel("Requests to copy (%)"), "100");
    await space(panel.getByLabel("Also while the machine is busy"));
    await enter(button("Start", panel));
    await panel.getByText(/^v2 gets copies of 100 % of the requests to v1/).waitFor();
    await enter(button("Discard", panel));
    await button("Start", panel).waitFor();
    await enter(button("Start", panel));
    await enter(button("Promote", panel));
    await page.getByText(`${versions} v2 serves in the place of v1.`).waitFor();
    const serving = (await api(base, "GET", `/api/models/${versions}`)).versions.filter((v) => v.state === "READY").map((v) => v.version);
    report.check(serving.join() === "2", `the candidate serves: ${serving}`);
    fs.rmSync(path.join(repo, versions), { recursive: true });
  });

  await step("contents of requests are kept, sent again, and forgotten", async () => {
    const panel = page.locator("section", { has: page.getByRole("heading", { name: "Contents of requests" }) });
    await at(`models/${name}`, panel);
    await type(panel.getByLabel("Minutes"), "5");
    await type(panel.getByLabel("Leave out inputs, outputs and parameters named"), "secret_*");
    await enter(button("Keep contents", panel));
    await panel.getByText("Without: secret_*").waitFor();
    const image = { name: "image", shape: [1, 1, 28, 28], datatype: "FP32", data: Array(784).fill(0.5) };
    await api(base, "POST", `/api/infer/${name}`, JSON.stringify({ inputs: [image] }), { "Content-Type": "application/json" });
    await panel.getByText(/[1-9]\d* captured, 0 dropped/).waitFor();
    await enter(button("Stop", panel));
    await panel.getByText(/[1-9]\d* request\(s\) are kept/).waitFor();
    await enter(page.getByRole("navigation").getByRole("link", { name: "Requests", exact: true }));
    await enter(page.locator("tr.one", { hasText: "contents kept" }).first().getByRole("button"));
    const kept = page.getByRole("region", { name: "Kept contents" });
    await enter(button("Send again", kept));
    await kept.getByText("All elements are equal").waitFor();
    await at(`models/${name}`, button("Forget them", panel));
    page.on("dialog", accept);
    await enter(button("Forget them", panel));
    await panel.getByText(/[1-9]\d* request\(s\) are kept/).waitFor({ state: "detached" });
    page.off("dialog", accept);
  });

  await step("an ensemble is made, and its graph edited", async () => {
    const ensemble = `${name}_steps`;
    await at("models", button("New ensemble"));
    await enter(button("New ensemble"));
    await type(dialog.getByLabel("Model name"), ensemble);
    await choose(dialog.getByLabel("First step"), "identity_fp32");
    await enter(button("Make it", dialog));
    await dialog.getByText("No faults found").waitFor();
    await enter(button("Load model", dialog));
    await dialog.getByText(`${ensemble} is ready`).waitFor();
    await at(`models/${ensemble}/config`, page.getByText("No faults found"));
    await enter(button("Steps"));
    await enter(button("Add add_sub as a step"));
    for (const [from, to] of [["OUTPUT0 of identity_fp32", "INPUT0 of add_sub"], ["INPUT0 of Inputs", "INPUT1 of add_sub"], ["OUTPUT0 of add_sub", "OUTPUT0 of Outputs"], ["OUTPUT1 of add_sub", "new output of Outputs"]]) {
      await enter(button(`Wire from ${from}`));
      await page.getByRole("status").filter({ hasText: "Now press the port that takes it" }).waitFor();
      await enter(button(`Wire to ${to}`));
    }
    await page.getByText("No faults found").waitFor();
    report.check(/add_sub/.test(await editorText(page)), "the text has the step");
    await enter(button("Save and reload"));
    await page.getByText("the new configuration serves").waitFor();
    await api(base, "DELETE", `/api/models/${ensemble}`);
  });

  await step("a model is fetched", async () => {
    await at("get", page.getByLabel("Source"));
    await type(page.getByLabel("Source"), path.join(root, "models-sample", "add_sub"));
    await press("Enter");
    await type(dialog.getByLabel("Model name"), `${name}_got`);
    await dialog.getByText("No faults found").waitFor();
    await enter(button("Load model", dialog));
    await dialog.getByText(`${name}_got is ready`).waitFor();
    await press("Escape");
    await dialog.waitFor({ state: "detached" });
    await api(base, "DELETE", `/api/models/${name}_got`);
  });

  await step("a conversion is chosen, and what cannot be converted says why", async () => {
    await at("convert", page.getByRole("heading", { name: "Convert a model", level: 1 }));
    await choose(page.getByLabel("Model of the repository"), "mlp");
    await tab(button("Convert"));
    await pick(page.getByLabel("or a file"), { name: "engine.plan", mimeType: "application/octet-stream", buffer: Buffer.from("x") });
    await enter(button("Convert"));
    await page.getByRole("alert").getByText("a TensorRT engine holds code for one GPU").waitFor();
  });

  await step("the question before an installation is opened, and closed", async () => {
    await at("server", button("Install PyTorch…"));
    await enter(button("Install PyTorch…"));
    await dialog.getByText("5.5 GB").waitFor();
    await press("Escape");
    await dialog.waitFor({ state: "detached" });
    const back = await eventually(() => button("Install PyTorch…").evaluate((el) => el === document.activeElement), (is) => is);
    report.check(back, "the focus is back at the button");
  });

  await step("a token is made and revoked", async () => {
    await at("settings", page.getByLabel("Name of a new token"));
    await type(page.getByLabel("Name of a new token"), "keys");
    await press("Enter");
    await page.locator("code.token").waitFor();
    await enter(button("I have copied it"));
    await enter(button("Revoke keys"));
    await enter(button("Revoke", dialog));
    await page.getByText("There are no tokens.").waitFor();
  });

  await step("the sidebar and the palette lead to each page", async () => {
    await at("models", button("Import model"));
    await enter(page.getByRole("navigation").getByRole("link", { name: "Requests", exact: true }));
    await page.getByRole("heading", { name: "Requests", level: 1 }).waitFor();
    await press("ControlOrMeta+k");
    await page.keyboard.type("charts " + name);
    await press("Enter");
    await page.waitForURL(new RegExp(name));
  });
  await api(base, "DELETE", `/api/models/${name}`);
  await browser.close();
  report.page = before;
  if (kiosk) await visitor(kiosk, report);
}

/** A visitor of the public page with the models digits, words and add_sub. */
async function visitor(base, report) {
  const before = report.page;
  const { browser, page } = await open(base, report);
  const { button, enter, pick, type, step, at } = keysOf(base, page, report);

  await step("a visitor of the public page asks models", async () => {
    const answer = page.locator("section", { hasText: "The model answers" });
    await at("", page.getByRole("link", { name: /words/ }));
    await enter(page.getByRole("link", { name: /words/ }));
    await type(page.getByLabel("Your text").first(), "the quick fox");
    await enter(button("Ask the model"));
    await answer.getByText("the quick fox").waitFor();
    await at("digits", page.getByRole("button", { name: "grey_28", exact: true }));
    await enter(button("grey_28"));
    await answer.locator("ol li .label").first().waitFor();
    await at("digits", page.getByRole("button", { name: "grey_28", exact: true }));
    await pick(button("Choose a picture"), path.join(root, "models-sample/digits/requests/grey_28.png"));
    await answer.locator("ol li .label").first().waitFor();
  });

  await browser.close();
  report.page = before;
}

const accept = (d) => void d.accept();
