// The access settings: create a token, use it, open and close the network, revoke the token.
import { api, axe, axeEverywhere, shot } from "./lib.mjs";

/** http: the inference server's address, "http://127.0.0.1:8000". Leaves everything as it was. */
export async function settings({ base, http, page, report }) {
  const status = async (headers = {}) => (await fetch(`${http}/v2`, { headers })).status;

  await report.step("B082 B080 access settings", async () => {
    await page.goto(`${base}/#/settings`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await page.getByText("There are no tokens.").waitFor();
    report.check(await page.getByRole("switch").isDisabled(), "the network cannot be opened without a token");
    report.check((await status()) === 200, "no token is asked for before there is one");
    await shot(page, "40-settings-empty");
    await axe(page, report, "settings without tokens");

    const { kiosk } = (await api(base, "GET", "/api/server")).addresses;
    const visitors = page.locator("section", { has: page.getByRole("heading", { name: "The public page" }) });
    if (kiosk === "") await visitors.getByText("Start the server with --kiosk").waitFor();
    else report.check((await visitors.getByRole("link").getAttribute("href")) === kiosk, `the public page is at ${kiosk}`);

    await page.getByLabel("Name of a new token").fill("<b>phone</b>");
    await page.getByRole("button", { name: "Create a token" }).click();
    const token = await page.locator("code.token").innerText();
    report.check(/^nrd_[A-Z2-7]{32}$/.test(token), `the token is shown: ${token.length} characters`);
    report.check((await status()) === 401, "from the first token on, one is asked for");
    report.check((await status({ Authorization: token })) === 200, "the token opens, raw");
    report.check((await status({ Authorization: `Bearer ${token}` })) === 200, "the token opens, as Bearer");
    report.check((await page.locator("pre").allInnerTexts()).every((s) => s.includes(token)), "H11 the snippets have the token while it is shown");
    report.check((await page.locator("td b").count()) === 0, "H5 a token's name is text");
    await axe(page, report, "settings with a new token");

    if (await page.getByRole("main").locator("select option").nth(1).count()) {
      await page.getByRole("switch").click();
      await page.getByRole("img", { name: /QR code/ }).waitFor();
      await page.getByLabel("with the token").check();
      await axeEverywhere(page, report, "settings with the network open", "41-settings-open");
      await page.getByRole("switch").click();
      await page.getByRole("img", { name: /QR code/ }).waitFor({ state: "detached" });
    }
    await page.getByRole("button", { name: "I have copied it" }).click();
    report.check(!(await page.content()).includes(token), "H11 the token is nowhere in the page any more");
    await page.getByRole("button", { name: "Revoke <b>phone</b>" }).click();
    await page.getByText("This is the last token").waitFor();
    await axe(page, report, "revoking a token");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }).click();
    await page.getByText("There are no tokens.").waitFor();
    report.check((await status({ Authorization: token })) === 200 && (await status()) === 200, "without tokens none is asked for");
  });
}
