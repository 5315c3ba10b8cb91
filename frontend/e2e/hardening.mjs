// H5: names, texts and comments from outside are shown as text and never run.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { api, drop, setEditor, shot } from "./lib.mjs";

const bad = `<img src=x onerror="window.__xss=1">`;

/** model: the name of a loaded model whose configuration may be opened. Leaves everything as it was. */
export async function hardening({ base, page, report, model }) {
  const clean = async (where) => {
    report.check((await page.evaluate(() => window.__xss)) === undefined, `H5 nothing ran: ${where}`);
    report.check((await page.locator('img[src="x"]').count()) === 0, `H5 it is text: ${where}`);
  };
  await report.step("H5 foreign texts are shown as text", async () => {
    await api(base, "POST", "/api/client-errors", JSON.stringify({ message: bad, source: bad, line: 1, column: 1, stack: bad, page: "#/", userAgent: bad }), { "Content-Type": "application/json" });
    await page.goto(`${base}/#/history`);
    await page.getByText(bad).first().waitFor();
    await clean("an event of the history");

    await page.goto(`${base}/#/logs`);
    await page.getByText("onerror").last().waitFor();
    await clean("a line of the log");

    const dir = fs.mkdtempSync(path.join(os.tmpdir(), "nereid-e2e-"));
    try {
      const file = path.join(dir, `${bad.replaceAll("/", "")}.onnx`);
      fs.writeFileSync(file, "no model");
      await page.goto(`${base}/#/models`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await drop(page, [file]);
      const dialog = page.locator("dialog[open]");
      await dialog.locator(".note.error, li.error").first().waitFor();
      report.check((await dialog.innerText()).includes("onerror"), "H5 the dialog shows the file's name");
      await clean("the name of a dropped file");
      await shot(page, "45-hostile-file");
      await dialog.getByRole("button", { name: "Close" }).first().click();
      await dialog.waitFor({ state: "detached" });
    } finally {
      fs.rmSync(dir, { recursive: true });
    }

    await page.goto(`${base}/#/models/${encodeURIComponent(bad)}`);
    await page.getByText(bad).first().waitFor();
    await clean("a model's name in the address");

    await page.goto(`${base}/#/models/${model}/config`);
    await page.locator(".cm-content").waitFor();
    await setEditor(page, `# ${bad}\nname: "${bad.replaceAll('"', "'")}"\n`);
    await page.locator(".cm-line", { hasText: "onerror" }).first().waitFor();
    await page.getByText("onerror").last().waitFor();
    await clean("a comment and a fault of a configuration");
    await page.getByRole("button", { name: "Discard changes" }).click();
  });
}
