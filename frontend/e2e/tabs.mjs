// Many tabs of one browser, leaving and coming back, and the size of a first visit. A browser opens at most six
// connections to one host.
import { api, launch, listen, patience } from "./lib.mjs";

const many = 12;

/** model is loaded. */
export async function tabs({ base, context, report, model }) {
  const live = (page) => page.locator(".status", { hasText: "Live" }).waitFor();
  const pages = [];
  context.setDefaultTimeout(patience);

  await report.step("a first visit takes at most 150 kB", async () => {
    const fresh = await context.browser().newContext(); // with an empty cache
    fresh.setDefaultTimeout(patience);
    const page = await fresh.newPage();
    listen(page, report);
    const sizes = [];
    const measure = (r) => void sizes.push(r.sizes());
    page.on("requestfinished", measure);
    await page.goto(base + "/#/models");
    await page.getByRole("button", { name: `Unload ${model}`, exact: true }).waitFor();
    page.off("requestfinished", measure); // the size of a request that ends while the page closes is not to be had
    const total = (await Promise.all(sizes)).reduce((n, s) => n + s.responseBodySize + s.responseHeadersSize, 0);
    report.check(sizes.length > 3 && total <= 150_000, `a first visit takes ${total} bytes in ${sizes.length} replies`);
    console.log(`     ${total} bytes in ${sizes.length} replies`);
    await fresh.close();
  });

  await report.step(`${many} tabs are live, and follow the models`, async () => {
    while (pages.length < many) { // one after the other: a busy machine is slow with all at once
      const page = await context.newPage();
      listen(page, report);
      pages.push(page);
      await page.goto(base + "/#/models");
      await live(page);
    }
    await api(base, "POST", `/api/models/${model}/unload`);
    for (const page of pages) await page.getByRole("button", { name: `Load ${model}`, exact: true }).waitFor();
  });

  await report.step("the other tabs stay live when the first ones are closed", async () => {
    for (const page of pages.splice(0, many - 2)) await page.close();
    await api(base, "POST", `/api/models/${model}/load`);
    for (const page of pages) await page.getByRole("button", { name: `Unload ${model}`, exact: true }).waitFor();
  });

  await report.step("leaving and coming back eight times", async () => {
    const page = pages[0];
    for (let i = 0; i < 8; i++) {
      await page.goto("about:blank");
      await page.goBack();
      await live(page);
    }
    await page.getByRole("button", { name: `Unload ${model}`, exact: true }).waitFor();
  });

  await report.step("a page from the back button's cache is live, and follows the models", async () => {
    const browser = await launch({ ignoreDefaultArgs: ["--disable-back-forward-cache"] }); // an argument of the driver
    const page = await browser.newPage();
    listen(page, report);
    page.setDefaultTimeout(patience);
    await page.addInitScript(() => addEventListener("pageshow", (e) => (globalThis.shows = [...(globalThis.shows ?? []), e.persisted])));
    await page.goto(base + "/#/models");
    await live(page);
    for (const [change, button] of [["unload", "Load"], ["load", "Unload"]]) {
      await page.goto("about:blank");
      await api(base, "POST", `/api/models/${model}/${change}`);
      await page.goBack({ waitUntil: "commit" }); // a page of the cache does not load
      await live(page);
      await page.getByRole("button", { name: `${button} ${model}`, exact: true }).waitFor();
    }
    const shows = await page.evaluate(() => [globalThis.shows, performance.getEntriesByType("navigation")[0].notRestoredReasons]);
    report.check(JSON.stringify(shows[0]) === "[false,true,true]", `the page comes from the cache: ${JSON.stringify(shows)}`);
    await browser.close();
  });

  await report.step("a page without shared workers, as in the window, is live", async () => {
    const page = pages[1];
    await page.addInitScript(() => delete globalThis.SharedWorker);
    await page.reload();
    await live(page);
    await page.getByRole("button", { name: `Unload ${model}`, exact: true }).waitFor();
  });
  for (const page of pages) await page.close();
}
