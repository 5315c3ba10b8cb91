// Contents of a model's requests are kept while a person wants it, and the page says so.
import { api, axe, shot } from "./lib.mjs";

/** model is the sample digits under any name. */
export async function capturing({ base, page, report, model }) {
  await report.step("contents are kept while the page says so, and forgotten on demand", async () => {
    await page.goto(`${base}/#/models/${model}`);
    const panel = page.locator("section", { has: page.getByRole("heading", { name: "Contents of requests" }) });
    await panel.getByRole("button", { name: "Keep contents" }).click();
    await panel.getByText("Contents of requests are kept until").waitFor();
    const image = { name: "image", shape: [1, 1, 28, 28], datatype: "FP32", data: new Array(784).fill(0.5) };
    await api(base, "POST", `/api/infer/${model}`, JSON.stringify({ inputs: [image] }), { "Content-Type": "application/json" });
    await panel.getByText(/[1-9]\d* captured, 0 dropped/).waitFor();
    await panel.scrollIntoViewIfNeeded();
    await shot(page, "17-capture");
    await axe(page, report, "capture");
    await panel.getByRole("button", { name: "Stop" }).click();
    await panel.getByText(/[1-9]\d* request\(s\) are kept/).waitFor();
    page.once("dialog", (d) => d.accept());
    await panel.getByRole("button", { name: "Forget them" }).click();
    await panel.getByText(/[1-9]\d* request\(s\) are kept/).waitFor({ state: "detached" });
    report.check((await api(base, "GET", `/api/models/${model}/capture`)).kept === 0, "nothing is kept");
  });
}
