// The page "Get a model": a source is fetched, imported and loaded; what fails says why.
import path from "node:path";
import { api, axeEverywhere, root } from "./lib.mjs";

/** Makes a model of its own, named with id, and removes it. The source is a folder of this machine: nothing is asked of the network. */
export async function getting({ base, page, report, id }) {
  const name = `e2e_get_${id}`;
  const dialog = page.locator("dialog[open]");
  const get = page.getByRole("button", { name: "Get", exact: true }).first();

  await report.step("a model is fetched from a source, imported, and ready to try", async () => {
    await page.goto(`${base}/#/models`);
    await page.getByRole("link", { name: "Get a model" }).click();
    await page.getByLabel("Source").fill(path.join(root, "models-sample", "add_sub"));
    await get.click();
    await dialog.getByLabel("Model name").fill(name);
    await dialog.getByText("No faults found").waitFor();
    await dialog.getByRole("button", { name: "Load model" }).click();
    await dialog.getByText(`${name} is ready`).waitFor();
    await dialog.getByRole("button", { name: "Try it" }).click();
    await page.getByRole("heading", { name }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByText("Fetched from").waitFor();
    await api(base, "DELETE", `/api/models/${name}`);
  });

  await report.step("a source that is none says what it should be; the gallery is filtered", async () => {
    await page.goto(`${base}/#/get`);
    await page.getByLabel("Source").fill("/nothing/is/here");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("is no source: it is neither a file or folder").waitFor();
    await page.getByLabel("Filter by name or use").fill("type file");
    await page.waitForFunction(() => document.querySelectorAll("main li").length === 1);
    report.check((await page.locator("main li").innerText()).includes("magika"), "the filter finds a model by its use");
    await axeEverywhere(page, report, "get a model", "50-get");
  });
}
