// Pages of special models (a configuration with errors, an ensemble), and whether
// pages with long texts can be read on a phone.
import fs from "node:fs";
import path from "node:path";
import { api, axe, eventually, shot } from "./lib.mjs";

export async function faces({ base, page, report, id }) {
  const state = async (name) => (await api(base, "GET", "/api/models")).models.find((m) => m.name === name);
  const repository = (await state("add_sub")).repository;
  const made = [];
  const put = (name, config) => {
    const folder = path.join(repository, name);
    made.push(folder);
    fs.mkdirSync(path.join(folder, "1"), { recursive: true });
    fs.writeFileSync(path.join(folder, "config.pbtxt"), config);
    return folder;
  };
  const broken = `e2e_broken_${id}`;
  const ensemble = `e2e_ensemble_${id}`;

  await report.step("a model whose configuration cannot be read says so, and where to correct it", async () => {
    put(broken, 'platfrom: "onnxruntime_onnx"\n');
    await eventually(() => state(broken), (m) => m?.reason);
    await page.goto(`${base}/#/models/${broken}`);
    await page.locator("header").getByText("UNAVAILABLE").waitFor();
    await page.locator(".note.error").getByText("platfrom").waitFor();
    await page.getByText("unknown: the configuration has errors").nth(1).waitFor();
    report.check((await page.getByText("unknown: the configuration has errors").count()) === 2, "inputs and outputs are not known, rather than none");
    report.check((await page.getByText("one request at a time").count()) === 0, "nothing is said of how it batches");
    await shot(page, "60-broken");
    await axe(page, report, "a model with a broken configuration");
    await page.getByRole("link", { name: "Fix the configuration" }).click();
    await page.getByRole("list", { name: "Faults" }).getByText("platfrom").first().waitFor();
    await shot(page, "61-broken-config");
  });

  await report.step("an ensemble names its steps, and no instances", async () => {
    const io = (name, tensor) => `${name} [ { name: "${tensor}" data_type: TYPE_FP32 dims: [ 16 ] } ]\n`;
    put(ensemble, `platform: "ensemble"\nmax_batch_size: 8\n${io("input", "IN")}${io("output", "OUT")}ensemble_scheduling { step [
      { model_name: "identity_fp32" model_version: -1 input_map { key: "INPUT0" value: "IN" } output_map { key: "OUTPUT0" value: "between" } },
      { model_name: "builtin_identity" model_version: -1 input_map { key: "INPUT0" value: "between" } output_map { key: "OUTPUT0" value: "OUT" } } ] }\n`);
    await eventually(() => state(ensemble), (m) => m?.state === "READY");
    await page.goto(`${base}/#/models/${ensemble}`);
    const facts = page.locator("section", { has: page.getByRole("heading", { name: "Configuration" }) });
    await facts.getByText("identity_fp32 → builtin_identity").waitFor();
    const text = await facts.textContent();
    report.check(!/Instances|allocators/.test(text), `an ensemble has no instances and no memory of its own: ${text}`);
    await shot(page, "62-ensemble");
    await axe(page, report, "an ensemble");
  });

  await report.step("the steps of an ensemble take a line each", async () => {
    const size = page.viewportSize();
    const step = `e2e_a_model_with_a_long_name_${id}`;
    const pipeline = `e2e_pipeline_${id}`;
    const io = (name, tensor) => `${name} [ { name: "${tensor}" data_type: TYPE_FP32 dims: [ 16 ] } ]\n`;
    put(step, `backend: "identity"\nmax_batch_size: 8\n${io("input", "INPUT0")}${io("output", "OUTPUT0")}`);
    put(pipeline, `platform: "ensemble"\nmax_batch_size: 8\n${io("input", "IN")}${io("output", "OUT")}ensemble_scheduling { step [
      { model_name: "${step}" model_version: -1 input_map { key: "INPUT0" value: "IN" } output_map { key: "OUTPUT0" value: "between" } },
      { model_name: "${step}" model_version: -1 input_map { key: "INPUT0" value: "between" } output_map { key: "OUTPUT0" value: "OUT" } } ] }\n`);
    await eventually(() => state(pipeline), (m) => m?.state === "READY");
    for (const [width, height] of [[1280, 800], [390, 844]]) {
      await page.setViewportSize({ width, height });
      await page.goto(`${base}/#/models/${pipeline}/try`);
      await page.getByRole("button", { name: "Send request" }).click();
      const rows = page.locator("ol.steps li");
      await rows.nth(1).waitFor();
      await shot(page, `62-steps-${width}`);
      const places = await rows.evaluateAll((all) => all.map((li) => [...li.querySelectorAll(".track, b, .at")].map((x) => Math.round(x.getBoundingClientRect().x))));
      report.check(JSON.stringify(places[0]) === JSON.stringify(places[1]), `the parts of the steps begin at ${JSON.stringify(places)} at ${width} px`);
      const lines = await rows.evaluateAll((all) => Math.max(...all.map((li) => li.offsetHeight / parseFloat(getComputedStyle(li).lineHeight))));
      report.check(width < 1280 || lines < 1.5, `steps take up to ${lines} lines at ${width} px`);
      const wide = await rows.evaluateAll((all) => all.filter((li) => li.scrollWidth > li.clientWidth).length);
      report.check(wide === 0, `${wide} steps are wider than the page at ${width} px`);
    }
    await page.setViewportSize(size);
  });

  await report.step("events with long texts can be read on a phone", async () => {
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    try {
      await page.goto(`${base}/#/history?range=24h`);
      const text = page.locator("td.text", { hasText: "platfrom" }).first();
      await text.waitFor();
      const box = await text.boundingBox();
      report.check(box.width > 250 && box.x >= 0 && box.x + box.width <= 390, `the text of an event is ${box.width} px wide at ${box.x}`);
      const over = await page.locator(".scroll", { has: text }).evaluate((el) => el.scrollWidth - el.clientWidth);
      report.check(over <= 0, `the events are ${over} px wider than the phone`);
      await shot(page, "63-phone-events");
      await axe(page, report, "events on a phone");
    } finally {
      await page.setViewportSize(size);
    }
  });

  await report.step("the list of models fits a small screen", async () => {
    const size = page.viewportSize();
    try {
      for (const width of [1024, 1180, 981, 390]) {
        await page.setViewportSize({ width, height: 768 });
        await page.goto(`${base}/#/models`);
        await page.getByRole("link", { name: broken, exact: true }).waitFor();
        const over = await page.locator(".scroll", { has: page.locator("table") }).evaluateAll((all) => Math.max(...all.map((el) => el.scrollWidth - el.clientWidth)));
        report.check(over <= 0, `at ${width} px the list of models is ${over} px wider than its place`);
        await shot(page, `64-models-${width}`);
      }
    } finally {
      await page.setViewportSize(size);
    }
  });

  for (const folder of made) fs.rmSync(folder, { recursive: true });
}
