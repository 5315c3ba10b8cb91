// The page "Convert a model": what it takes, and why something cannot be converted. Nothing here installs converters.
import { axeEverywhere, shot } from "./lib.mjs";

/** Leaves nothing behind. */
export async function converting({ base, page, report }) {
  const convert = page.getByRole("button", { name: "Convert", exact: true });

  await report.step("the page Convert a model offers what the source allows", async () => {
    await page.goto(`${base}/#/models`);
    await page.getByRole("link", { name: "Convert a model" }).click();
    await page.getByRole("heading", { name: "Convert a model", level: 1 }).waitFor();
    report.check(await convert.isDisabled(), "nothing is converted without a source");
    await page.getByLabel("Shapes of the inputs").waitFor();
    await page.getByLabel("Model of the repository").selectOption("mlp");
    await page.getByLabel("FP16: half the size").waitFor();
    report.check((await page.getByLabel("Shapes of the inputs").count()) === 0, "an ONNX model has its shapes");
    report.check(await convert.isEnabled(), "a model of the repository can be converted");
    await axeEverywhere(page, report, "convert a model", "51-convert");
  });

  await report.step("what cannot be converted says why and what to do", async () => {
    await page.getByLabel("or a file").setInputFiles({ name: "engine.plan", mimeType: "application/octet-stream", buffer: Buffer.from("x") });
    await convert.click();
    await page.getByRole("alert").getByText("a TensorRT engine holds code for one GPU").waitFor();
    await shot(page, "52-convert-refused");
  });

  await report.step("of several files, the one with the model is converted", async () => {
    const file = (name) => ({ name, mimeType: "application/octet-stream", buffer: Buffer.from("x") });
    await page.getByLabel("or a file").setInputFiles([file("nets.py"), file("weights.pth")]);
    await page.getByLabel("What makes the model of weights").fill("nets.py:Net");
    await convert.click();
    await page.getByRole("alert").getByText("nets.py. If you trust where it is from, say --trust").waitFor();
  });
}
