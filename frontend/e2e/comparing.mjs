// Two versions of a model: the same input side by side, and their charts.
import fs from "node:fs";
import path from "node:path";
import { api, axeEverywhere, eventually, root, setNumber, shot } from "./lib.mjs";

/** The server follows its repository (poll mode). */
export async function comparing({ base, page, report }) {
  const name = "e2e_compare";
  const repo = (await api(base, "GET", "/api/server")).repositories[0].path;
  const sample = path.join(root, "models-sample", "digits");
  const aside = path.join(repo, `.${name}`); // the server must not see an incomplete model
  const onnx = fs.readFileSync(path.join(sample, "1", "model.onnx"));
  for (const v of ["1", "2"]) {
    fs.mkdirSync(path.join(aside, v), { recursive: true });
    fs.writeFileSync(path.join(aside, v, "model.onnx"), onnx);
    onnx.copyWithin(onnx.length >> 1, (onnx.length >> 1) + 4, (onnx.length >> 1) + 40_000); // other weights
  }
  const config = fs.readFileSync(path.join(sample, "config.pbtxt"), "utf8").replace(/^name:.*$/m, "").replace(/^version_policy.*$/m, "");
  fs.writeFileSync(path.join(aside, "config.pbtxt"), `${config}\nversion_policy { all {} }\n`);
  fs.copyFileSync(path.join(sample, "labels.txt"), path.join(aside, "labels.txt"));
  fs.renameSync(aside, path.join(repo, name));

  await report.step("two versions answer the same input side by side", async () => {
    const ready = (m) => m?.versions.filter((v) => v.state === "READY").length === 2;
    const m = await eventually(async () => (await api(base, "GET", "/api/models")).models.find((x) => x.name === name), ready);
    report.check(ready(m), `both versions are loaded: ${JSON.stringify(m)}`);
    await page.goto(`${base}/#/models/${name}/try`);
    const panel = page.getByRole("region", { name: "Compare versions" });
    const run = panel.getByRole("button", { name: "Compare" });
    await run.waitFor();
    await page.getByRole("button", { name: "Values (JSON)" }).click();
    await page.getByRole("button", { name: "Random" }).click();
    await run.click();
    await panel.getByText(/^\d+ of 10 elements differ$/).waitFor();
    await panel.getByText("Largest difference").waitFor();
    await panel.getByText(/^Best class$/).waitFor();
    report.check((await panel.locator(".pair ol").count()) === 2, "the best classes of both are shown");
    report.check((await panel.locator("tbody tr").count()) === 2, "the times of both are shown");
    await axeEverywhere(page, report, "compared versions", "47-compare", panel);
    await panel.getByLabel("Second version").selectOption("1");
    report.check(await run.isDisabled(), "a version is not compared with itself");
    await page.goto(`${base}/#/models/${name}/charts`);
    await page.getByText("Latency (p99) per version").first().waitFor();
    await shot(page, "47-compare-charts");
  });
  await report.step("a candidate gets copies of requests, and is promoted", async () => {
    await api(base, "POST", `/api/models/${name}/versions/2/unload`);
    await page.goto(`${base}/#/models/${name}`);
    const panel = page.getByRole("region", { name: "Candidate version" });
    await setNumber(panel.getByLabel("Requests to copy (%)"), 100);
    await panel.getByLabel("Also while the machine is busy").check();
    await panel.getByRole("button", { name: "Start" }).click();
    await panel.getByText(/^v2 gets copies of 100 % of the requests to v1/).waitFor();
    const [input] = (await api(base, "GET", `/api/models/${name}`)).inputs;
    const shape = [1, ...input.dims.slice(-3).map((d) => Math.abs(d))];
    const size = shape.reduce((a, b) => a * b, 1);
    for (let i = 0; i < 20; i++) {
      const data = Array.from({ length: size }, (_, k) => ((i * 7 + k * 13) % 16) / 16);
      await api(base, "POST", `/api/infer/${name}`, JSON.stringify({ inputs: [{ name: input.name, shape, datatype: input.dataType, data }] }), { "Content-Type": "application/json" });
    }
    await panel.getByText(/^\d+ of 20 \(/).waitFor();
    await panel.getByText(/^The answers differ/).waitFor();
    await axeEverywhere(page, report, "a candidate", "48-candidate", panel);
    await panel.getByRole("button", { name: "Discard" }).click();
    await panel.getByRole("button", { name: "Start" }).waitFor();
    const serving = async () => (await api(base, "GET", `/api/models/${name}`)).versions.filter((v) => v.state === "READY").map((v) => v.version).join();
    report.check((await serving()) === "1", `after discarding the candidate, ${await serving()} serves`);
    await setNumber(panel.getByLabel("Requests to copy (%)"), 100);
    await panel.getByRole("button", { name: "Start" }).click();
    await panel.getByRole("button", { name: "Promote" }).click();
    await page.getByText(`${name} v2 serves in the place of v1.`).waitFor();
    report.check((await serving()) === "2", `the candidate alone serves: ${await serving()}`);
    await panel.getByText(/^The candidate v2 has ended/).waitFor();
  });
  fs.rmSync(path.join(repo, name), { recursive: true });
}
