// The page of the requests: live, filters in the address, details in words, steps, phone width.
import { api, axe, shot } from "./lib.mjs";

export async function requests({ base, page, report }) {
  const { addresses } = await api(base, "GET", "/api/server");
  const send = (model, body) => fetch(`http://${addresses.http}/v2/models/${model}/infer`, { method: "POST", body: JSON.stringify(body) });
  const values = { shape: [1, 16], datatype: "FP32", data: Array.from({ length: 16 }, (_, i) => i) };
  const good = (id) => send("add_sub", { id, inputs: [{ name: "INPUT0", ...values }, { name: "INPUT1", ...values }] });
  const table = page.getByRole("table", { name: "Requests" });
  const row = (text) => table.locator("tr.one", { hasText: text }).first();
  const mark = `e2e-${Date.now().toString(36)}`;

  await report.step("a request shows up on the page of the requests while it is open", async () => {
    await page.goto(`${base}/#/requests`);
    await page.getByRole("heading", { name: "Requests" }).waitFor();
    await good(`${mark}-ok`);
    await row(`${mark}-ok`).waitFor();
    report.check((await row(`${mark}-ok`).textContent()).includes("add_sub v1"), "it has its model and version");
    await send("add_sub", { id: `${mark}-bad`, inputs: [] });
    await row("invalid").waitFor();
  });

  await report.step("a request explains itself in words", async () => {
    await row(`${mark}-ok`).getByRole("button").click();
    await table.getByText(/It ran alone in add_sub/).waitFor();
    await shot(page, "72-request");
    await axe(page, report, "a request with its details");
    await row(`${mark}-ok`).getByRole("button").click();
  });

  await report.step("the calls of a model are below its request", async () => {
    const picture = { name: "picture", shape: [28, 28], datatype: "UINT8", data: new Array(784).fill(0) };
    await send("digits_pipeline", { id: `${mark}-steps`, inputs: [picture] });
    await row(`${mark}-steps`).getByRole("button").click();
    await table.locator("ol.steps li", { hasText: "digits" }).first().waitFor();
    await shot(page, "73-request-steps");
  });

  await report.step("filters are in the address", async () => {
    await page.getByLabel("Outcome shown").selectOption("refused");
    await table.locator("tr.one.ok").first().waitFor({ state: "detached" });
    await row("invalid").waitFor();
    report.check(page.url().endsWith("#/requests?show=refused"), page.url());
    await page.goto(`${base}/#/requests?text=${mark}-OK`);
    await row(`${mark}-ok`).waitFor();
    report.check((await table.locator("tr.one").count()) === 1, "only the request with the text is shown");
    await page.getByLabel("Search").fill("nothing has this");
    await table.getByText("No request matches.").waitFor();
  });

  await report.step("a paused list does not change", async () => {
    await page.goto(`${base}/#/requests`);
    await row(`${mark}-ok`).waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await good(`${mark}-later`);
    const before = await table.locator("tr.one").count();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    report.check((await row(`${mark}-later`).count()) === 0 && (await table.locator("tr.one").count()) === before, "nothing is added");
    await page.getByRole("button", { name: "Resume" }).click();
    await row(`${mark}-later`).waitFor();
  });

  await report.step("the requests can be read on a phone", async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    try {
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        await page.goto(`${base}/#/requests`);
        await row(`${mark}-ok`).waitFor();
        const whole = await page.locator("main").evaluate((el) => el.scrollWidth - el.clientWidth);
        report.check(whole <= 0, `the page is ${whole} px wider than the phone`);
        await shot(page, `74-requests-phone-${theme}`);
        await axe(page, report, `the requests on a phone (${theme})`);
      }
    } finally {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme: "light" });
    }
  });
}
