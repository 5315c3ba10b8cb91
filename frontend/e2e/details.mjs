// What the page keeps while the user looks elsewhere, and what it asks the server for.
import { editorText, eventually } from "./lib.mjs";

/** model has a configuration, add_sub is there. */
export async function details({ base, page, report, model }) {
  const tab = (name) => page.getByRole("navigation", { name: "Model pages" }).getByRole("link", { name, exact: true }).click();

  await report.step("Try it keeps what was typed over a change of tab, and refuses ragged lists", async () => {
    await page.goto(`${base}/#/models/add_sub/try`);
    const field = page.getByLabel("Values of INPUT0");
    await field.fill("[[1, 2], [3, 4, 5]]");
    await page.getByText("[1] has 3 elements, but [0] has 2").waitFor();
    await tab("Overview");
    await page.getByRole("heading", { name: "Configuration" }).waitFor();
    await tab("Try it");
    report.check((await field.inputValue()) === "[[1, 2], [3, 4, 5]]", `the field has ${await field.inputValue()}`);
    await page.getByText("[1] has 3 elements, but [0] has 2").waitFor();
  });

  await report.step("a zoom asks for the history once", async () => {
    await page.goto(`${base}/#/models/${model}/charts`);
    const chart = page.locator("figure .u-over").first();
    await chart.waitFor();
    await eventually(() => page.locator("figure canvas").count(), (n) => n >= 4);
    await chart.scrollIntoViewIfNeeded();
    const asked = [];
    page.on("request", (r) => r.url().includes("/api/history?") && asked.push(r.url()));
    const box = await chart.boundingBox();
    await page.mouse.move(box.x + 100, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + 300, box.y + 40, { steps: 5 });
    const [reply] = await Promise.all([page.waitForResponse((r) => r.url().includes("/api/history?")), page.mouse.up()]);
    await reply.finished();
    await page.evaluate(() => new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(ok))));
    report.check(asked.length === 1, `a zoom asks ${asked.length} times`);
  });

  await report.step("a reload asks before it drops an unsaved configuration", async () => {
    await page.goto(`${base}/#/models/${model}/config`);
    await page.locator(".cm-line", { hasText: "max_batch_size" }).waitFor();
    const before = await editorText(page);
    await page.locator(".cm-content").click();
    await page.keyboard.type("# mine");
    await page.getByText("changed, not saved").waitFor();
    let asked = "";
    page.once("dialog", (d) => {
      asked = d.type();
      void d.accept();
    });
    await page.reload();
    report.check(asked === "beforeunload", `the page asked by ${asked || "nothing"}`);
    await page.locator(".cm-line", { hasText: "max_batch_size" }).waitFor();
    report.check((await editorText(page)) === before, "the text is that of the file");
  });
}
