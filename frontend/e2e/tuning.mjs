// Tuning a model on its page: a real search in private servers, its result applied, kept and discarded.
import { api, axe, axeEverywhere, eventually, setNumber, shot } from "./lib.mjs";

/** model: the name of a loaded ONNX model with one instance whose configuration may be changed. Leaves it as it was. */
export async function tuning({ base, page, report, model }) {
  const url = `${base}/#/models/${model}/tune`;
  const button = (name) => page.getByRole("button", { name });
  const result = page.locator("section.result");
  const text = async () => (await api(base, "GET", `/api/models/${model}`)).configText;
  const before = await text();
  const values = async (windowMs) => {
    await page.getByText("Values to try, and the requests for measuring").click();
    await setNumber(page.getByLabel("Window, ms"), windowMs);
    for (const name of ["max batch size", "dynamic batching", "threads"]) {
      const field = page.getByLabel(name, { exact: true });
      if (await field.isVisible()) await field.fill("present");
    }
    await page.getByLabel("instances", { exact: true }).fill("2");
    await page.getByLabel("clients", { exact: true }).fill("1,2");
  };

  await report.step("tuning: what will be tried is shown, and that it disturbs", async () => {
    await page.goto(url);
    await page.getByText(/At most \d+ of .* possible measurements/).waitFor();
    report.check(await page.getByText(/Its requests are slower until the search ends/).isVisible(), "the page says that a tuning disturbs");
    await button("brute").click();
    await page.getByRole("alert").getByText(/measurements, more than 1000/).waitFor();
    report.check(await button("Start tuning").isDisabled(), "a search that would take for ever cannot be started");
    await values(50);
    await page.getByText(/^4 measurements; about/).waitFor();
    await shot(page, "15-tune-form");
    await axe(page, report, "tuning form");
  });

  await report.step("what if: other settings are tried on the last requests", async () => {
    const card = page.getByRole("region", { name: "What if" });
    const image = JSON.stringify({ inputs: [{ name: "image", datatype: "FP32", shape: [1, 1, 28, 28], data: Array(784).fill(0) }] });
    for (let i = 0; i < 30; i++) await api(base, "POST", `/api/infer/${model}`, image, { "Content-Type": "application/json" });
    const again = card.getByRole("button", { name: "Look again" });
    await again.or(card.locator("tbody tr").first()).first().waitFor();
    if (await again.isVisible()) await again.click(); // the page was opened before the requests
    const row = (name) => card.getByRole("row", { name });
    await row("Predicted for these settings").waitFor();
    await card.getByLabel("Dynamic batching", { exact: true }).setChecked(true);
    await setNumber(card.getByLabel("Largest batch"), 10_000);
    await setNumber(card.getByLabel("Wait for others, in µs"), 200_000);
    const p50 = await eventually(() => row("Predicted for these settings").locator("td").first().textContent(), (text) => / m?s$/.test(text) && parseFloat(text) > 1);
    report.check(/ m?s$/.test(p50), `with a delay of 200 ms and no batch that is full, half of the requests would take longer than ${p50}`);
    await axeEverywhere(page, report, "what if", "15-what-if", card.locator("table"));
  });

  await report.step("tuning: each measurement comes as it is made, and the best is compared", async () => {
    await button("Start tuning").click();
    await result.locator("tbody input[type=radio]").first().waitFor();
    await result.getByRole("heading", { name: /^Tuned/ }).waitFor();
    report.check((await result.locator("tbody input[type=radio]").count()) === 4, "a row for each measurement");
    report.check((await result.locator("figure > svg circle.dot").count()) === 4, "a point for each measurement");
    await result.getByRole("row", { name: /instances 1 → 2/ }).first().getByRole("radio").check();
    await result.locator("td.add", { hasText: "count: 2" }).waitFor();
    report.check((await text()) === before, "nothing is written before it is applied");
    await axeEverywhere(page, report, "tuning result", "16-tuned", result);
  });

  await report.step("tuning: applied as a revision, and still there after a reload of the page", async () => {
    await button("Apply and reload").click();
    await page.getByText("the new configuration serves").waitFor();
    await page.getByText("This configuration is in use.").waitFor();
    const m = await api(base, "GET", `/api/models/${model}`);
    report.check(m.configText.includes("count: 2") && m.state === "READY" && m.instances === 2, `two instances serve: ${m.instances}, ${m.state}`);
    await page.reload();
    await result.getByRole("heading", { name: /^Tuned/ }).waitFor();
    const [newest] = (await api(base, "GET", `/api/models/${model}/revisions`)).revisions;
    report.check(newest.source === "tune", `the newest revision is of ${newest.source}`);
    await api(base, "POST", `/api/models/${model}/revisions/${newest.id}/restore`, JSON.stringify({ baseRevision: newest.id, before: true }), { "Content-Type": "application/json" });
    report.check((await text()) === before, "the revision is undone");
  });

  await report.step("tuning: stopped, and discarded", async () => {
    await button("New tuning").click();
    await button("brute").click();
    await values(60_000);
    await page.getByText(/^4 measurements; about/).waitFor();
    await button("Start tuning").click();
    await result.getByText(/^Measuring /).waitFor();
    await shot(page, "17-tuning");
    await axe(page, report, "tuning under way");
    await button("Stop").click();
    await result.getByRole("heading", { name: /^Stopped/ }).waitFor();
    const past = page.locator("section.panel", { has: page.getByRole("heading", { name: "Tunings of this model" }) });
    await past.waitFor();
    page.once("dialog", (d) => void d.accept());
    await button("Discard this tuning").click();
    await result.getByRole("heading", { name: /^Tuned/ }).waitFor();
    await past.waitFor({ state: "detached" });
    const left = (await api(base, "GET", `/api/models/${model}/tunings`)).tunings;
    report.check(left.length === 1 && left[0].applied > 0, `one tuning is left: ${left.length}`);
  });
}
