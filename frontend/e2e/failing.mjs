// A configuration that does not load: the pages describe the one in service, and the way back stays reachable.
import fs from "node:fs";
import path from "node:path";
import { api, axe, editorText, setEditor, shot } from "./lib.mjs";

const ensemble = (step, batch) => `platform: "ensemble"
max_batch_size: ${batch}
input { name: "image" data_type: TYPE_FP32 dims: [ 1, 28, 28 ] }
output { name: "scores" data_type: TYPE_FP32 dims: [ 10 ] }
ensemble_scheduling {
  step { model_name: "${step}" model_version: -1 input_map { key: "image" value: "image" } output_map { key: "scores" value: "scores" } }
}
`;

/** model: the name of a loaded model of digits, which becomes the step of an ensemble. */
export async function failing({ base, page, report, model }) {
  const button = (name) => page.getByRole("button", { name, exact: true });
  const name = `${model}_ensemble`;
  const at = (tab = "") => page.goto(`${base}/#/models/${name}${tab && "/" + tab}`);
  const detail = () => api(base, "GET", `/api/models/${name}`);

  await report.step("after a failed reload the pages describe what serves, and undo stays", async () => {
    const { repository } = await api(base, "GET", `/api/models/${model}`);
    fs.mkdirSync(path.join(repository, name, "1"), { recursive: true });
    fs.writeFileSync(path.join(repository, name, "config.pbtxt"), ensemble(model, 8));
    const loaded = await api(base, "POST", `/api/models/${name}/load`);
    report.check(loaded.ok, `the ensemble loads: ${loaded.reason}`);
    // The first change that loads: from then on there is a revision to go back to.
    await at("config");
    await page.locator(".cm-line").first().waitFor();
    const before = (await editorText(page)).trimEnd();
    await setEditor(page, before + "\n# first\n");
    await button("Save and reload").click();
    await page.getByText("the new configuration serves").waitFor();
    await setEditor(page, ensemble("absent_model", 3));
    await page.getByRole("list", { name: "Faults" }).getByText("which is not there").waitFor();
    const only = page.getByLabel("only if it loads");
    await only.check();
    await button("Save and reload").click();
    await page.getByText("the file was put back as it was").waitFor();
    await shot(page, "46-put-back");
    await axe(page, report, "a configuration that was put back");
    report.check((await editorText(page)).includes("absent_model"), "the text stays in the editor");
    report.check((await detail()).configText.includes("# first"), "the file is as it was");
    await only.uncheck();
    await button("Save and reload").click();
    await page.getByText("Saved, but it could not be loaded").waitFor();

    await at();
    await page.getByText("The saved configuration did not load.").waitFor();
    await page.getByRole("heading", { name: "Signature in service" }).waitFor();
    const rows = await page.locator("dd", { hasText: "rows per request" }).allTextContents();
    report.check(rows.length === 2 && rows.some((r) => r.includes("8 rows")) && rows.some((r) => r.includes("3 rows")), `both batch sizes: ${rows}`);
    await shot(page, "46-failed-config");
    await axe(page, report, "a configuration that did not load");
    await at("try");
    await page.getByText("The saved configuration did not load.").waitFor();
    await at("config");
    await page.locator(".cm-line").first().waitFor();
    await shot(page, "46-failed-editor");
    await button("Undo the change").click();
    await page.getByText("The change is undone.").waitFor();
    await page.getByText("The saved configuration did not load.").waitFor({ state: "detached" });
    const after = await detail();
    report.check(after.failed === null && after.configText.includes("# first") && after.maxBatchSize === 8, "the text before it is back");
    await api(base, "DELETE", `/api/models/${name}`);
  });
}
