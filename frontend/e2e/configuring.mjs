// The configuration page: the form for instance groups, and the remarks of the backend on parameters.
import { api, axe, editorText, eventually, setEditor, shot } from "./lib.mjs";

/** model: the name of a loaded ONNX model whose configuration may be changed. Leaves it as it was. */
export async function configuring({ base, page, report, model }) {
  const button = (name) => page.getByRole("button", { name, exact: true });
  const open = async () => {
    await page.goto(`${base}/#/models/${model}/config`);
    await page.locator(".cm-line").first().waitFor();
    await page.getByText("No faults found").waitFor();
  };
  await report.step("instance groups are edited in a form and counts apply at once", async () => {
    await open();
    const before = await editorText(page);
    await button("Instances").click();
    const group = page.getByRole("group", { name: "Group 1" });
    if (!/instance_group/.test(before)) await button("Add a group").click();
    await group.waitFor();
    await group.getByLabel("Runs on").selectOption("KIND_CPU");
    await group.getByLabel("Instances").fill("3");
    await group.getByLabel("Instances").blur();
    await page.locator(".cm-line", { hasText: /count: 3/ }).waitFor();
    await shot(page, "09-instances");
    await axe(page, report, "instance groups");
    await button("Save and reload").click();
    await page.getByText("the new configuration serves").waitFor();
    await page.goto(`${base}/#/models/${model}`);
    const rows = page.locator("section.panel", { has: page.getByRole("heading", { name: "Instances", exact: true }) }).locator("tbody tr");
    const running = await eventually(() => rows.count(), (n) => n === 3);
    report.check(running === 3, `three instances run: ${running}`);
    await open();
    await setEditor(page, before);
    await page.getByText("No faults found").waitFor();
    if (!(await button("Save and reload").isDisabled())) {
      await button("Save and reload").click();
      await page.getByText("the new configuration serves").waitFor();
    }
  });

  await report.step("the form changes single fields of the text, the text the form, and comments stay", async () => {
    await open();
    const before = await editorText(page);
    await setEditor(page, before.replace(/dynamic_batching \{[^}]*\}\n?/, "").trimEnd() + "\n# mine\ndynamic_batching {\n  max_queue_delay_microseconds: 100 # short\n}\n");
    await button("Form").click();
    const line = (text) => page.locator(".cm-line", { hasText: text }).waitFor();
    const edit = async (label, value) => {
      await page.getByLabel(label).fill(value);
      await page.keyboard.press("Tab");
    };
    await edit("Wait for others, in µs", "250");
    await line("max_queue_delay_microseconds: 250 # short");
    await edit("Preferred sizes", "2, 4");
    await line("preferred_batch_size: [ 2, 4 ]");
    await page.getByLabel("Versions to serve").selectOption("all");
    await line("version_policy { all { } }");
    await page.getByLabel("Answer equal requests").focus();
    await page.keyboard.press("Space");
    await line("response_cache { enable: true }");
    await button("Add a request of zeros").click();
    await line('name: "zeros');
    await page.getByText("No faults found").waitFor();
    await shot(page, "09-form");
    await axe(page, report, "configuration form");
    const text = await editorText(page);
    report.check(text.includes("# mine\ndynamic_batching {"), `comments and order stay: ${text}`);
    await setEditor(page, text.replace("microseconds: 250", "microseconds: 42"));
    await page.waitForFunction(() => [...document.querySelectorAll("fieldset input")].some((i) => i.value === "42"));
    await button("Discard changes").click();
    await page.locator(".cm-line", { hasText: "# mine" }).waitFor({ state: "detached" });
    report.check((await editorText(page)) === before, "nothing is left after discarding");
  });

  await report.step("sequences are set in the form; their controls stay in the text", async () => {
    await open();
    const before = await editorText(page);
    await setEditor(page, before.replace(/dynamic_batching \{[^}]*\}\n?/, ""));
    await button("Form").click();
    const sequences = page.getByLabel("Requests belong to sequences");
    await sequences.check();
    await page.getByLabel("Idle time until a sequence ends").fill("2500000");
    await page.keyboard.press("Tab");
    const line = (text) => page.locator(".cm-line", { hasText: text });
    await line("max_sequence_idle_microseconds: 2500000").waitFor();
    report.check(await page.getByLabel("Dynamic batching: requests").isDisabled(), "sequences exclude dynamic batching");
    await sequences.uncheck();
    await line("sequence_batching").waitFor({ state: "detached" });
    const control = '{ name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] }';
    await setEditor(page, `${(await editorText(page)).trimEnd()}\nsequence_batching { control_input [ ${control} ] }\n`);
    await page.getByText("Its control inputs and states are edited in the text").waitFor();
    report.check((await sequences.isChecked()) && (await sequences.isDisabled()), "the form does not drop the controls");
    await page.getByLabel("Idle time until a sequence ends").fill("7000");
    await page.keyboard.press("Tab");
    await line("max_sequence_idle_microseconds: 7000").waitFor();
    report.check((await editorText(page)).includes(control), "the controls stay as they are");
    await axe(page, report, "sequences in the form");
    await button("Discard changes").click();
    await line("sequence_batching").first().waitFor({ state: "detached" });
    report.check((await editorText(page)) === before, "nothing is left after discarding");
  });

  await report.step("the backend judges parameters while typing", async () => {
    await open();
    const before = await editorText(page);
    const parameter = (key, value) => `${before.trimEnd()}\nparameters {\n  key: "${key}"\n  value { string_value: "${value}" }\n}\n`;
    const faults = page.getByRole("list", { name: "Faults" });
    await setEditor(page, parameter("intra_op_thread_count", "many"));
    await faults.getByText('parameter "intra_op_thread_count" is "many"').waitFor();
    report.check(await button("Save and reload").isDisabled(), "a parameter that the backend refuses is not saved");
    await setEditor(page, parameter("intra_op_thread_cont", "1"));
    await faults.getByText("has no effect in onnxruntime").waitFor();
    await shot(page, "09-parameters");
    await faults.getByRole("button", { name: 'use "intra_op_thread_count"' }).click();
    await page.getByText("No faults found").waitFor();
    report.check((await editorText(page)).includes('"intra_op_thread_count"'), "the fix is one click");
    await button("Discard changes").click();
    await page.locator(".cm-line", { hasText: "intra_op" }).first().waitFor({ state: "detached" });
    report.check((await editorText(page)) === before, "discarding brings the text back into the editor");
    const m = await api(base, "GET", `/api/models/${model}`);
    report.check(m.state === "READY" && !m.configText.includes("intra_op"), "nothing was saved");
  });
}
