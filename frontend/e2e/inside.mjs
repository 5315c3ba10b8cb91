// What is in an ONNX file: its facts, its graph, and where its time goes.
import { axe, setNumber, shot } from "./lib.mjs";

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
    await shot(page, "16-inside");
    await axe(page, report, "inside");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.locator("g.box.node").first().waitFor();
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.locator("g.box").nth(14).waitFor();
    report.check((await page.locator("g.box").count()) === 15, "13 nodes, an input and an output are drawn");
    await page.getByLabel("Find an operator").fill("gemm");
    await page.getByText("2 found").waitFor();
    await page.getByLabel("Find an operator").press("Enter");
    await page.getByText("FP32 [64, 2352]").or(page.getByText("FP32 [2352, 64]")).first().waitFor();
    await shot(page, "16-graph");
    await axe(page, report, "graph");
    await page.getByText(/measured; at least .* expected/).waitFor();
    await page.goto(`${base}/#/models/words/inside`);
    await page.getByText("this is for ONNX models").waitFor();
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
}
