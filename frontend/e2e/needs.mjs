// The import of a model whose framework is missing: the dialog offers the installation, and the trust stays.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { axe, drop, shot } from "./lib.mjs";

/** The server must not have PyTorch. */
export async function needs({ base, page, report }) {
  const dialog = page.locator("dialog[open]");
  const button = (name) => dialog.getByRole("button", { name });

  await report.step("an import whose framework is missing offers to install it", async () => {
    await page.goto(base + "/#/models");
    const folder = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "nereid-e2e-")), "e2e_needs");
    fs.mkdirSync(path.join(folder, "1"), { recursive: true });
    fs.writeFileSync(path.join(folder, "1", "model.pt"), "no model");
    fs.writeFileSync(path.join(folder, "config.pbtxt"), `backend: "pytorch"
input { name: "x" data_type: TYPE_FP32 dims: 1 }
output { name: "y" data_type: TYPE_FP32 dims: 1 }
`);
    await drop(page, [folder]);
    const trust = dialog.locator(".note.warning").getByRole("checkbox");
    await trust.check();
    await button("Load model").click();
    await dialog.getByText("e2e_needs needs PyTorch, which is not installed.").waitFor();
    report.check(await trust.isChecked(), "a failed load does not ask again whether the code is trusted");
    await shot(page, "47-import-needs");
    await axe(page, report, "an import whose framework is missing");
    await button("Install PyTorch…").click();
    await page.locator("dialog[open]", { hasText: "Install PyTorch?" }).getByRole("button", { name: "Cancel" }).click();
    await button("Cancel").click();
    await dialog.waitFor({ state: "detached" });
    fs.rmSync(path.dirname(folder), { recursive: true });
  });
}
