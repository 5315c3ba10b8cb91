// Contents of a model's requests are kept while a person wants it, and the page says so.
import { api, axeEverywhere, shot } from "./lib.mjs";

/** model is the sample digits under any name. */
export async function capturing({ base, page, report, model }) {
  await report.step("contents are kept while the page says so, and forgotten on demand", async () => {
    const infer = () => api(base, "POST", `/api/infer/${model}`, JSON.stringify({ inputs: [image] }), { "Content-Type": "application/json" });
    await page.goto(`${base}/#/models/${model}`);
    const panel = page.locator("section", { has: page.getByRole("heading", { name: "Contents of requests" }) });
    await panel.getByRole("button", { name: "Keep contents" }).click();
    await panel.getByText("Contents of requests are kept until").waitFor();
    const image = { name: "image", shape: [1, 1, 28, 28], datatype: "FP32", data: new Array(784).fill(0.5) };
    await infer();
    await panel.getByText(/[1-9]\d* captured, 0 dropped/).waitFor();
    await axeEverywhere(page, report, "capture", "17-capture", panel);
    await panel.getByRole("button", { name: "Stop" }).click();
    await panel.getByText(/[1-9]\d* request\(s\) are kept/).waitFor();
    await contents({ base, page, report, model });
    await page.goto(`${base}/#/models/${model}`);
    await replayLast({ page, report, panel });
    page.once("dialog", (d) => d.accept());
    await panel.getByRole("button", { name: "Forget them" }).click();
    await panel.getByText(/[1-9]\d* request\(s\) are kept/).waitFor({ state: "detached" });
    report.check((await api(base, "GET", `/api/models/${model}/capture`)).kept === 0, "nothing is kept");
  });
}

/** The list marks what is kept, and a request shows it. */
async function contents({ base, page, report, model }) {
  await page.goto(`${base}/#/requests?model=${model}`);
  const row = page.locator("tr.one", { hasText: "contents kept" }).first();
  await row.getByRole("button").click();
  const kept = page.getByRole("region", { name: "Kept contents" });
  await kept.getByText("0.5, 0.5").waitFor();
  report.check((await kept.textContent()).includes("FP32 [1, 1, 28, 28]"), "the input has its type and shape");
  await kept.getByRole("button", { name: "Send again" }).click();
  await kept.getByText(/Version 1 answered in/).waitFor();
  await kept.getByText("All elements are equal").waitFor();
  await kept.getByText("Outputs of the new answer").waitFor();
  await axeEverywhere(page, report, "kept contents", "17-contents", kept);
  const size = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 800 });
  await kept.scrollIntoViewIfNeeded();
  await shot(page, "17-contents-phone");
  await kept.getByRole("button", { name: "As curl or Python" }).click();
  await kept.getByText("curl -X POST").waitFor();
  await shot(page, "17-kept-code-phone");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  report.check(wide <= 0, `the kept contents are ${wide} pixels too wide for a phone`);
  await page.setViewportSize(size);
  await page.emulateMedia({ colorScheme: null });
  const golden = `kept_${Date.now().toString(36)}`;
  await kept.getByRole("button", { name: "Save as a golden request" }).click();
  await kept.getByLabel("Name").fill(golden);
  await kept.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText(`Saved as golden/${golden}.json`).waitFor();
  await kept.getByRole("button", { name: "Open in Try it" }).click();
  await page.waitForURL(/\/try$/);
  await page.locator("main textarea").first().waitFor();
  const shown = await page.locator("main textarea").first().inputValue();
  report.check(shown.startsWith("[0.5,0.5") && shown.length > 3000, `the form has the kept input: ${shown.slice(0, 40)}`);
  await shot(page, "17-kept-try");
}

/** The last kept requests are sent again, from the model's page. */
async function replayLast({ page, report, panel }) {
  await panel.getByRole("button", { name: "Send the last ones again" }).click();
  await panel.getByText(/[1-9]\d* equal, 0 different, 0 failed, 0 not sent/).waitFor();
  await axeEverywhere(page, report, "requests that were sent again", "17-replays", panel);
}
