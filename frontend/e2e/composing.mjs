// Ensembles: one is made, gets a step and wires by mouse and keyboard, and answers as drawn.
import { api, axeEverywhere, editorText, eventually, inFirefox } from "./lib.mjs";

/** id makes names unique. The models identity_fp32, identity_int64 and add_sub are loaded. The ensemble is removed at the end. */
export async function composing({ base, page, report, id }) {
  const dialog = page.locator("dialog[open]");
  const button = (name, scope = page) => scope.getByRole("button", { name, exact: true });
  const name = `e2e_composed_${id}`;
  const status = (text) => page.getByRole("status").filter({ hasText: text }).waitFor();

  /** Drags with the mouse, as a person does. */
  const drag = async (from, to) => {
    await from.scrollIntoViewIfNeeded();
    const [p, q] = [await from.boundingBox(), await to.boundingBox()];
    await page.mouse.move(p.x + p.width / 2, p.y + p.height / 2);
    await page.mouse.down();
    await page.mouse.move(q.x + q.width / 2, q.y + q.height / 2, { steps: 5 });
    await page.mouse.up();
  };

  await report.step("a new ensemble is made from one model", async () => {
    await page.goto(`${base}/#/models`);
    await button("New ensemble").click();
    await dialog.getByLabel("Model name").fill(name);
    await dialog.getByLabel("First step").selectOption("identity_fp32");
    await axeEverywhere(page, report, "a new ensemble", "64-new-ensemble");
    await button("Make it", dialog).click();
    await dialog.getByText("No faults found").waitFor();
    await button("Load model", dialog).click();
    await dialog.getByText(`${name} is ready`).waitFor();
    await button("Close", dialog).first().click();
    await dialog.waitFor({ state: "detached" });
  });

  await report.step("steps and wires are drawn, wrong ones refused, and the text follows", async () => {
    await page.goto(`${base}/#/models/${name}/config`);
    await page.getByText("No faults found").waitFor();
    await button("Steps").click();
    // The driver of Firefox cannot drag a model.
    if (inFirefox) await button("Add add_sub as a step").click();
    else await drag(button("Add add_sub as a step"), page.getByRole("region", { name: "Outputs", exact: true }));
    await status("add_sub is a step now");
    await page.getByRole("region", { name: "Step 2: add_sub" }).waitFor();
    await button("Add identity_int64 as a step").click();
    const wire = (from, to) => drag(button(`Wire from ${from}`), button(`Wire to ${to}`));
    await wire("OUTPUT0 of identity_fp32", "INPUT0 of identity_int64");
    await status("The data types differ.");
    if (!inFirefox) await drag(button("Add running_sum as a step"), page.getByRole("heading", { name, exact: true }));
    report.check((await page.getByRole("region", { name: /^Step 4/ }).count()) === 0, "a model that is dropped elsewhere is no step");
    await button("Remove the step: identity_int64").click();
    await wire("OUTPUT0 of identity_fp32", "INPUT0 of add_sub");
    await status("Connected.");
    // With the keyboard only.
    await button("Wire from INPUT0 of Inputs").focus();
    await page.keyboard.press("Enter");
    await status("Now press the port that takes it");
    await button("Wire to INPUT1 of add_sub").focus();
    await page.keyboard.press("Enter");
    await wire("OUTPUT0 of add_sub", "OUTPUT0 of Outputs");
    await wire("OUTPUT1 of add_sub", "new output of Outputs");
    await page.getByText("No faults found").waitFor();
    await axeEverywhere(page, report, "the steps of an ensemble", "64-steps");
    const text = await editorText(page);
    report.check(!text.includes("identity_int64") && /name: "OUTPUT1"/.test(text), `the text says what is drawn: ${text}`);
    await button("Save and reload").click();
    await page.getByText("the new configuration serves").waitFor();
  });

  await report.step("the ensemble answers as drawn, and its graph has the time of each step", async () => {
    const data = Array.from({ length: 16 }, (_, i) => i);
    const body = JSON.stringify({ inputs: [{ name: "INPUT0", datatype: "FP32", shape: [1, 16], data }] });
    const reply = await api(base, "POST", `/api/infer/${name}`, body, { "Content-Type": "application/json" });
    const of = (output) => reply.outputs.find((o) => o.name === output).data;
    report.check(of("OUTPUT0").every((v, i) => v === 2 * i) && of("OUTPUT1").every((v) => v === 0), `twice the input, and zeros: ${JSON.stringify(reply)}`);
    await eventually(async () => (await api(base, "GET", `/api/requests?model=${name}`)).requests.length, (n) => n > 0);
    await page.goto(`${base}/#/models/${name}`);
    const step = page.getByRole("region", { name: "Step 2: add_sub" });
    await step.getByText("on average").waitFor();
    await axeEverywhere(page, report, "the graph of an ensemble", "64-steps-of-ensemble", step);
    report.check((await page.getByRole("button", { name: /^Wire/ }).count()) === 0, "the overview changes nothing");
    await api(base, "DELETE", `/api/models/${name}`);
  });
}
