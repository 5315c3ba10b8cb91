// Every page in both themes, wide and as on a phone, with axe.
import { axeEverywhere } from "./lib.mjs";

/** The address of each page, and an element that shows that it is complete: charts and editors load dynamically. */
const pages = (model) => ({
  models: ["models", "table.cards tbody tr"],
  overview: [`models/${model}`, "section.panel td.mono"],
  try: [`models/${model}/try`, "main section.send"],
  config: [`models/${model}/config`, ".cm-line"],
  inside: [`models/${model}/inside`, "main dl.facts"],
  charts: [`models/${model}/charts`, "figure canvas"],
  revisions: [`models/${model}/revisions`, "section.panel table"],
  alerts: [`models/${model}/alerts`, "main h2"],
  history: ["history?range=24h", "main table"],
  logs: ["logs", "main li .stamp"],
  requests: ["requests", "main tr.one"],
  server: ["server", "main [role=meter]"],
  settings: ["settings", "main form"],
});

/** model is an ONNX model with a revision. There are requests and events. */
export async function everyPage({ base, page, report, model }) {
  for (const [name, [hash, finished]] of Object.entries(pages(model))) {
    await report.step(`axe on the page ${name} in both themes, wide and on a phone`, async () => {
      await page.goto(`${base}/#/${hash}`);
      await page.locator(finished).first().waitFor();
      await axeEverywhere(page, report, name, `20-${name}`);
    });
  }

  await report.step("the themes are light and dark", async () => {
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      report.check((/^rgb\((\d+)/.exec(background)?.[1] < 128) === (theme === "dark"), `the ${theme} theme has the background ${background}`);
    }
    await page.emulateMedia({ colorScheme: null });
  });
}
