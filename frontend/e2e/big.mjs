// From the drop of a large ONNX file to its first answer, without typing: node e2e/big.mjs http://127.0.0.1:8003 big.onnx
// The model takes an image and is removed at the end. The script prints the time and fails above NEREID_BIG_MS (10000).
import path from "node:path";
import { api, drop, open, Report, root, shot } from "./lib.mjs";

const [base, file] = process.argv.slice(2);
const report = new Report();
const { browser, page } = await open(base, report);
const dialog = page.locator("dialog[open]");
const name = path.basename(file).replace(/\.onnx$/, "");
await page.getByText("Live", { exact: true }).waitFor();
await report.step("large model: drop, load, try", async () => {
  const start = Date.now();
  await drop(page, [file]);
  await shot(page, "50-upload");
  await dialog.getByRole("button", { name: "Load model" }).click({ timeout: 60_000 });
  await dialog.getByRole("button", { name: "Try it" }).click({ timeout: 60_000 });
  await page.setInputFiles("input[accept='image/*']", path.join(root, "models-sample/digits/requests/rgb_320x240_photo.png"));
  await page.getByRole("button", { name: "Send request" }).click();
  await page.getByText("measured in this page").waitFor({ timeout: 60_000 });
  const took = Date.now() - start;
  await shot(page, "51-answer");
  console.log(`from drop to first answer: ${took} ms`);
  report.check(took <= Number(process.env.NEREID_BIG_MS ?? 10_000), `took ${took} ms`);
});
await api(base, "DELETE", `/api/models/${name}`);
await browser.close();
console.log(report.failures.length ? report.failures.join("\n") : "all passed");
process.exit(report.failures.length ? 1 : 0);
