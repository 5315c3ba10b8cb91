// Many tabs of one browser, and leaving and coming back: a browser opens at most six connections to one host.
import { api } from "./lib.mjs";

const many = 12;

/** model is loaded. */
export async function tabs({ base, context, report, model }) {
  const live = (page) => page.locator(".status", { hasText: "Live" }).waitFor();
  const pages = [];

  await report.step(`${many} tabs are live, and follow the models`, async () => {
    await Promise.all(Array.from({ length: many }, async () => {
      const page = await context.newPage();
      pages.push(page);
      await page.goto(base + "/#/models");
      await live(page);
    }));
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

  await report.step("a page without shared workers, as in the window, is live", async () => {
    const page = pages[1];
    await page.addInitScript(() => delete globalThis.SharedWorker);
    await page.reload();
    await live(page);
    await page.getByRole("button", { name: `Unload ${model}`, exact: true }).waitFor();
  });
  for (const page of pages) await page.close();
}
