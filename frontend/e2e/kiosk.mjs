// The public page: a visitor tries models with a picture, the camera, a text and values, and finds no way to change anything.
import fs from "node:fs";
import path from "node:path";
import { axe, axeEverywhere, open, root, shot } from "./lib.mjs";

/** at: the address of the public page with the models digits, words, running_sum and add_sub; does nothing without it. */
export async function kiosk({ at, report }) {
  if (!at) return;
  const before = report.page;
  const { browser, page } = await open(at, report, { permissions: ["camera", "microphone"] });
  const answer = page.locator("section", { hasText: "The model answers" });

  await report.step("a visitor sees the models that are shown", async () => {
    await page.getByRole("link", { name: /digits/ }).waitFor();
    const names = await page.locator("li a b").allInnerTexts();
    report.check(names.sort().join() === "add_sub,digits,running_sum,words", `the models on the page: ${names}`);
    report.check((await page.getByRole("link", { name: /digits/ }).locator("svg, canvas").count()) > 0, "a model has its chart");
    await axeEverywhere(page, report, "public page", "40-kiosk");
  });

  await report.step("a visitor tries a picture, an example and the camera", async () => {
    await page.getByRole("link", { name: /digits/ }).click();
    await page.setInputFiles("input[accept='image/*']", path.join(root, "models-sample/digits/requests/grey_28.png"));
    const want = JSON.parse(fs.readFileSync(path.join(root, "models-sample/digits/requests/grey_28.json"), "utf8"));
    await answer.locator("ol li .label").first().waitFor();
    report.check(want !== null && (await answer.locator("ol li").count()) === 5, "the five best labels are shown");
    await axeEverywhere(page, report, "public page of a model", "40-kiosk-picture");
    await page.getByRole("button", { name: "Camera" }).click();
    await page.waitForFunction(() => (document.querySelector("video")?.readyState ?? 0) >= 2);
    const [live] = await Promise.all([page.waitForResponse((r) => r.url().includes("/api/infer/digits")), page.getByRole("button", { name: "Live" }).click()]);
    report.check(live.status() === 200, "a picture of the camera is answered");
    await page.waitForResponse((r) => r.url().includes("/api/infer/digits")); // and the next one
    await page.getByRole("button", { name: "Pause" }).click();
    await page.setViewportSize({ width: 390, height: 844 });
    await page.goto(`${at}/#/`);
    await page.getByRole("link", { name: /digits/ }).click();
    await page.getByRole("button", { name: "Camera" }).click();
    await page.waitForFunction(() => (document.querySelector("video")?.readyState ?? 0) >= 2);
    await page.getByRole("button", { name: "Take a picture" }).click();
    await answer.locator("ol li .label").first().waitFor();
    const seen = await answer.evaluate((el) => el.getBoundingClientRect().top < innerHeight - 100);
    report.check(seen, "on a phone the first answer is seen");
    const [video, still] = await Promise.all(["video", "canvas"].map((s) => page.locator(s).first().boundingBox()));
    report.check(still.y >= video.y && still.y + still.height <= video.y + video.height && still.width < video.width / 2, "what was taken is small, over the picture of the camera");
    await shot(page, "40-kiosk-camera-phone");
    await axe(page, report, "camera on a phone");
    await page.setViewportSize({ width: 1360, height: 860 });
    await page.getByRole("button", { name: "Close" }).click();
  });

  await report.step("a visitor tries a text, and a bookmark opens a model", async () => {
    await page.goto(`${at}/#/words`);
    const text = page.getByLabel("Your text");
    await text.first().fill("the quick fox");
    await page.getByRole("button", { name: "Ask the model" }).click();
    await answer.getByText("the quick fox").waitFor();
    await shot(page, "40-kiosk-text");
    await page.setViewportSize({ width: 390, height: 800 });
    report.check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page fits a phone");
    await shot(page, "40-kiosk-phone");
    await axe(page, report, "public page on a phone");
    await page.setViewportSize({ width: 1360, height: 860 });
  });

  await report.step("the public page goes on after the server was away", async () => {
    await page.route("**/api/kiosk", (r) => r.fulfill({ status: 503, body: "{}" }));
    await page.getByText("One moment: the server is starting").waitFor();
    await page.unroute("**/api/kiosk");
    await page.getByText("One moment: the server is starting").waitFor({ state: "detached" });
  });

  await report.step("what a visitor gave is dropped for the next one", async () => {
    await page.clock.install();
    await page.goto(`${at}/#/`);
    await page.getByRole("link", { name: /words/ }).click();
    await page.getByLabel("Your text").first().fill("a secret");
    await page.clock.runFor(100_000);
    await page.getByRole("link", { name: /words/ }).click();
    report.check((await page.getByLabel("Your text").first().inputValue()) === "", "the next visitor finds an empty field");
  });

  await browser.close();
  report.page = before;
}

/** The public page in a hall: at is its address, which phones reach, pid the process of the server, which has the model echo. */
export async function hall({ at, pid, report }) {
  const before = report.page;
  const { browser, page } = await open(at, report, { permissions: ["microphone"] });

  const { url } = await (await page.request.get(`${at}/api/kiosk`)).json();
  const scans = "a visitor scans the address of the page";
  if (url === "") report.skips[scans] = "this machine has no address but loopback";
  await report.step(scans, async () => {
    await page.getByRole("img", { name: url }).waitFor();
    await page.getByRole("link", { name: /echo/ }).click();
    await page.getByRole("img", { name: url }).waitFor();
    report.check((await (await page.request.get(url)).text()) === (await (await page.request.get(`${at}/`)).text()), "the address opens this page");
  });

  await report.step("a visitor records sound, and hears the answer", async () => {
    await page.goto(`${at}/#/echo`);
    await page.getByRole("button", { name: "Record" }).click();
    const [asked] = await Promise.all([page.waitForResponse((r) => r.url().includes("/api/infer/echo")), page.getByRole("button", { name: "Stop recording" }).click()]);
    report.check(asked.status() === 200, "the recording is answered");
    await page.getByRole("img", { name: "Sound of audio_in" }).waitFor();
    await page.getByRole("img", { name: "Sound of audio_out" }).waitFor();
    await axeEverywhere(page, report, "public page with sound", "40-kiosk-sound");
  });

  await report.step("the public page comes back after the server was killed", async () => {
    await page.goto(`${at}/#/echo`);
    await page.getByRole("button", { name: "Record" }).waitFor();
    const again = page.waitForEvent("load"); // of the new server's page
    process.kill(Number(pid), "SIGKILL");
    await again;
    await page.getByRole("button", { name: "Record" }).waitFor();
    report.check((await page.getByText("One moment").count()) === 0, "nothing says that the server is away");
  });

  await browser.close();
  report.page = before;
}
