// What is in an ONNX file: its facts, its graph, and where its time goes.
import fs from "node:fs";
import path from "node:path";
import { api, axe, axeEverywhere, root, setNumber, shot } from "./lib.mjs";

/** model is the sample digits under any name; words is there. */
export async function inside({ base, page, report, model }) {
  await report.step("F052 what is in a file, its graph, and where its time goes", async () => {
    await page.goto(`${base}/#/models/${model}/inside`);
    await page.getByText("ONNX opset 17").waitFor();
    await page.getByText("FP32: 170,170 in 10 tensors").waitFor();
    await setNumber(page.getByLabel("batch"), 8);
    await page.getByRole("button", { name: "Measure", exact: true }).click();
    await page.getByText(/median, .* to /).waitFor();
    await page.getByText("[8, 1, 28, 28]").waitFor();
    report.check(await page.locator("table").first().getByText("Conv", { exact: true }).isVisible(), "the operators have times");
    await page.getByText(/The slowest \d+ of \d+ nodes/).waitFor();
    await axeEverywhere(page, report, "inside, measured", "16-inside");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.locator("g.box.node").first().waitFor();
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.locator("g.box").nth(14).waitFor();
    report.check((await page.locator("g.box").count()) === 15, "13 nodes, an input and an output are drawn");
    await page.getByLabel("Find an operator").fill("gemm");
    await page.getByText("2 found").waitFor();
    await page.getByLabel("Find an operator").press("Enter");
    await page.getByText("FP32 [64, 2352]").or(page.getByText("FP32 [2352, 64]")).first().waitFor();
    await axeEverywhere(page, report, "graph", "16-graph", page.locator("section.graph"));
    await page.getByText(/measured; at least .* expected/).waitFor();
    await page.goto(`${base}/#/models/words/inside`);
    await page.getByText("this is for ONNX models").waitFor();
  });

  await report.step("F052 operators that ONNX Runtime does not have are named", async () => {
    const { repository } = (await api(base, "GET", "/api/models")).models.find((m) => m.name === "words");
    const name = `e2e_operators_${Date.now().toString(36)}`;
    const folder = path.join(repository, name);
    fs.mkdirSync(path.join(folder, "1"), { recursive: true });
    fs.copyFileSync(path.join(root, "engine/backend/onnxruntime/testdata/own_function.onnx"), path.join(folder, "1", "model.onnx"));
    await page.goto(`${base}/#/models`);
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByRole("link", { name: "Inside", exact: true }).click();
    await page.getByText("ONNX Runtime does not have: other.nereid:Frobnicate, test.nereid:Once.").waitFor();
    await page.locator("dl.facts").getByText("x FP32 [1]").waitFor(); // the file lists its inputs all the same
    report.check((await page.getByRole("button", { name: "Measure", exact: true }).count()) === 0, "what does not load is not measured");
    await axeEverywhere(page, report, "inside, unsupported operators", "16-unsupported");
    fs.rmSync(folder, { recursive: true });
  });

  await report.step("changes are measured one by one, beside the configuration that serves", async () => {
    await page.goto(`${base}/#/models/${model}/inside`);
    const card = page.getByRole("region", { name: "What would make it faster" });
    await card.getByText("Not measured yet.").first().waitFor();
    await card.getByRole("button", { name: "Measure changes" }).click();
    await card.getByRole("row", { name: /→.*Clients: 1/ }).first().waitFor();
    report.check((await card.getByRole("button", { name: "Apply" }).count()) === 0, "nothing is applied while it measures");
    await card.getByRole("button", { name: "Stop" }).click();
    await card.getByRole("button", { name: "Measure changes" }).waitFor();
    report.check(await card.getByRole("row", { name: /→/ }).first().isVisible(), "what was measured stays");
    await card.scrollIntoViewIfNeeded();
    await shot(page, "16-suggestions");
    await axe(page, report, "suggestions");
  });

  await report.step("F052 a suggestion is applied by a click, through the tuner", async () => {
    const at = `/api/models/${model}`;
    const text = async () => (await api(base, "GET", at)).configText;
    const save = async (config) => api(base, "PUT", `${at}/config`, JSON.stringify({ text: config, baseRevision: (await api(base, "GET", at)).revision }), { "Content-Type": "application/json" });
    const was = await text();
    // A request alone waits for all of this delay, so a server without it is faster on any machine.
    await save(`${was.replace(/^dynamic_batching \{[^}]*\}$/m, "")}\ndynamic_batching { max_queue_delay_microseconds: 300000 }\n`);
    await page.reload();
    const card = page.getByRole("region", { name: "What would make it faster" });
    await card.getByRole("button", { name: "Measure changes" }).click();
    const off = card.getByRole("row", { name: /delay 300,000 µs → off .*Clients: 1\./ });
    await off.waitFor();
    await card.getByRole("button", { name: "Stop" }).click();
    await off.getByRole("button", { name: "Apply" }).click();
    await card.getByRole("status").getByText("The configuration is written and loaded.").waitFor();
    await card.scrollIntoViewIfNeeded();
    await shot(page, "16-applied");
    await axe(page, report, "an applied suggestion");
    const [newest] = (await api(base, "GET", `${at}/revisions`)).revisions;
    report.check(newest.source === "tune", `the newest revision is of ${newest.source}`);
    report.check(!(await text()).includes("300000"), `the delay is gone: ${await text()}`);
    await save(was);
    report.check((await text()) === was, "the configuration is as before");
  });
}
