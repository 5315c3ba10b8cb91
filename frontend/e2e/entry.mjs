// The GUI opened from another machine: the server has TLS, and asks for a token.
import { axe, axeEverywhere, open } from "./lib.mjs";

/**
 * at: an address of the server that is not loopback, so that the server does not know the user of the browser. token has the scope
 * admin. The server has the model add_sub. Without an address, the steps are skipped for the reason `why`.
 */
export async function entry({ at, token, why, report }) {
  const steps = {
    "a browser of another machine is asked for a token": asked,
    "a wrong token is refused": refused,
    "an admin token opens the page, on a phone too": opened,
    "the page stays open after a reload, without the token": kept,
  };
  if (!at) for (const name in steps) report.skips[name] = why;
  const before = report.page;
  const { browser, context, page } = at ? await open(at, report, { ignoreHTTPSErrors: true }) : {};
  for (const name in steps) await report.step(name, steps[name]);
  report.page = before;
  await browser?.close();

  async function asked() {
    await page.getByRole("heading", { name: "Open Nereid", level: 1 }).waitFor();
    report.check((await page.getByRole("link", { name: "add_sub" }).count()) === 0, "no model is seen before the token");
    report.check((await page.evaluate(async () => (await fetch("/api/models")).status)) === 401, "the interface refuses");
    await axeEverywhere(page, report, "the page that asks for a token", "70-entry");
  }

  async function refused() {
    await page.getByLabel("The link, or a token").fill("nrd_WRONG");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    report.check((await page.getByLabel("The link, or a token").inputValue()) === "", "what was typed is gone");
    await axe(page, report, "a refused token");
  }

  async function opened() {
    await page.getByLabel("The link, or a token").fill(token);
    await page.getByRole("button", { name: "Open", exact: true }).click();
    await page.getByRole("link", { name: "add_sub", exact: true }).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    await axeEverywhere(page, report, "models from another machine", "70-entry-models");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.getByRole("link", { name: "add_sub", exact: true }).click();
    await page.getByRole("link", { name: "Try it", exact: true }).click();
    await page.getByRole("button", { name: "Send request" }).click();
    await page.getByText("measured in this page").waitFor();
  }

  async function kept() {
    await page.reload();
    await page.getByRole("heading", { name: "add_sub", level: 1 }).waitFor();
    const found = await page.evaluate((secret) => [document.documentElement.outerHTML, document.cookie, JSON.stringify(localStorage)].some((s) => s.includes(secret)), token);
    report.check(!found, "H11 the token is nowhere in the page, and not in what it keeps");
    const cookies = await context.cookies();
    report.check(cookies.length === 1 && cookies[0].httpOnly && cookies[0].secure, `a script cannot read the cookie: ${JSON.stringify(cookies.map((c) => c.name))}`);
  }
}
