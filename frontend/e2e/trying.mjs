// "Try it" beyond one request and one answer: responses of a decoupled model as they come, and requests of a sequence.
import { execFileSync } from "node:child_process";
import { axe, patience, shot } from "./lib.mjs";

/** Needs the samples words and running_sum; does nothing without them. models: the names that are there. */
export async function trying({ base, page, report, models }) {
  const send = page.getByRole("button", { name: "Send request" });
  if (models.includes("words")) {
    await report.step("a decoupled model's responses come one by one", async () => {
      await page.goto(`${base}/#/models/words/try`);
      await page.getByLabel("Values of text_input").fill('["the quick brown fox"]');
      await page.getByRole("checkbox", { name: "send this optional input" }).check();
      await page.getByLabel("Values of delay_ms").fill("[1000]");
      await send.click();
      // Look in every frame: it is visible for three seconds only.
      await page.waitForFunction(() => /\b[1-3] responses so far/.test(document.body.innerText) && [...document.querySelectorAll("button")].some((b) => b.textContent === "Stop"));
      await page.getByText(/^4 responses · first after/).waitFor();
      report.check((await page.locator("p.text").innerText()) === "the quick brown fox", "the words are read in one piece");
      report.check((await page.locator(".list tbody tr").count()) === 4, "each response has its row");
      await shot(page, "15-stream");
      await axe(page, report, "stream");
      await page.getByLabel("Values of delay_ms").fill("[5000]");
      await send.click();
      await page.getByRole("button", { name: "Stop" }).click();
      await page.getByText("the server was asked to cancel").waitFor();
      if (process.env.NEREID_PYTHON) {
        await page.getByLabel("Values of delay_ms").fill("[1]");
        await page.getByRole("button", { name: "Python gRPC" }).click();
        const program = await page.locator("pre[role=region]").textContent();
        const out = execFileSync(process.env.NEREID_PYTHON, ["-c", program], { timeout: 2 * patience }).toString();
        report.check(out.split("\n").filter((l) => l.includes("b'")).length === 4, `the Python program prints four responses: ${out}`);
      }
    });
  }
  if (models.includes("running_sum")) {
    await report.step("requests of a sequence follow each other", async () => {
      await page.goto(`${base}/#/models/running_sum/try`);
      await page.getByLabel("Correlation ID").fill("4711");
      for (const [value, sum, last] of [[3, 3, false], [4, 7, false], [5, 12, true]]) {
        await page.getByLabel("Values of value").fill(`[${value}]`);
        if (last) await page.getByRole("checkbox", { name: "last" }).check();
        await send.click();
        await page.locator("ol[aria-label='Requests of the sequence'] li", { hasText: `sum ${sum}` }).waitFor();
        report.check(!last === !(await page.getByRole("checkbox", { name: "first" }).isChecked()), "the next request is the first only after the last");
      }
      report.check((await page.getByLabel("Correlation ID").inputValue()) === "4712", "after the last another sequence begins");
      await shot(page, "16-sequence");
      await axe(page, report, "sequence");
    });
  }
}
