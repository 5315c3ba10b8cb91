// "Try it" beyond one request and one answer: responses of a decoupled model as they come, and requests of a sequence.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { api, axe, axeEverywhere, eventually, patience, root, shot } from "./lib.mjs";

/** A model that answers with the sound that it gets. */
const echo = {
  config: `backend: "python"
input [ { name: "audio_in" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "audio_out" data_type: TYPE_FP32 dims: [ -1 ] } ]
`,
  model: `import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        sounds = [pb_utils.get_input_tensor_by_name(r, "audio_in").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("audio_out", s)]) for s in sounds]
`,
};
/** Finds the same two boxes and a spot in any JPEG file. The parameter "first" names the first box. */
const boxes = {
  config: `backend: "python"
input [ { name: "picture" data_type: TYPE_UINT8 dims: [ 1, -1 ] } ]
output [
  { name: "boxes" data_type: TYPE_FP32 dims: [ 2, 4 ] },
  { name: "scores" data_type: TYPE_FP32 dims: [ 2 ] },
  { name: "names" data_type: TYPE_STRING dims: [ 2 ] },
  { name: "heat" data_type: TYPE_FP32 dims: [ 16, 16 ] }
]
`,
  model: `import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            file = pb_utils.get_input_tensor_by_name(r, "picture").as_numpy().tobytes()
            if not file.startswith(b"\\xff\\xd8\\xff"):
                raise ValueError("no JPEG file")
            heat = np.zeros((16, 16), np.float32)
            heat[4:8, 4:8] = 1
            values = {
                "boxes": np.array([[10, 20, 110, 80], [120, 100, 300, 300]], np.float32),
                "scores": np.array([0.9, 0.2], np.float32),
                "names": np.array([json.loads(r.parameters()).get("first", "moon").encode(), b"sun"], np.object_),
                "heat": heat,
            }
            out.append(pb_utils.InferenceResponse([pb_utils.Tensor(n, v) for n, v in values.items()]))
        return out
`,
};

/** Needs the samples words and running_sum; does nothing without them. models: the names that are there. */
export async function trying({ base, page, report, models }) {
  const send = page.getByRole("button", { name: "Send request" });
  if (models.includes("words")) {
    await report.step("a decoupled model's responses come one by one", async () => {
      await page.goto(`${base}/#/models/words/try`);
      await page.getByLabel("Values of text_input").fill('["the quick brown fox"]');
      await page.getByRole("checkbox", { name: "send this optional input" }).check();
      await page.getByLabel("Values of delay_ms").fill("[1000]");
      await send.click();
      // Look in every frame: it is visible for three seconds only.
      await page.waitForFunction(() => /\b[1-3] responses so far/.test(document.body.innerText) && [...document.querySelectorAll("button")].some((b) => b.textContent === "Stop"));
      await page.getByText(/^4 responses · first after/).waitFor();
      report.check((await page.locator("p.text").innerText()) === "the quick brown fox", "the words are read in one piece");
      report.check((await page.locator(".list tbody tr").count()) === 4, "each response has its row");
      await shot(page, "15-stream");
      await axe(page, report, "stream");
      await page.getByLabel("Values of delay_ms").fill("[5000]");
      await send.click();
      await page.getByRole("button", { name: "Stop" }).click();
      await page.getByText("the server was asked to cancel").waitFor();
      if (process.env.NEREID_PYTHON) {
        await page.getByLabel("Values of delay_ms").fill("[1]");
        await page.getByRole("button", { name: "Python gRPC" }).click();
        const program = await page.locator("pre[role=region]").textContent();
        const out = execFileSync(process.env.NEREID_PYTHON, ["-c", program], { timeout: 2 * patience }).toString();
        report.check(out.split("\n").filter((l) => l.includes("b'")).length === 4, `the Python program prints four responses: ${out}`);
      }
    });
  }
  if (models.includes("identity_fp16")) {
    await report.step("an input takes sound from the microphone, and from a file", async () => {
      await page.context().grantPermissions(["camera", "microphone"]);
      await page.goto(`${base}/#/models/identity_fp16/try`);
      await page.getByRole("button", { name: "Sound", exact: true }).click();
      await page.getByRole("button", { name: "Record" }).click();
      await page.getByRole("button", { name: "Stop recording" }).click();
      await page.getByRole("img", { name: "Sound of INPUT0" }).waitFor();
      await page.locator("input[accept='audio/*']").setInputFiles({ name: "beep.wav", mimeType: "audio/wav", buffer: wav(8000, 4000) });
      await page.getByText("0.5 s, 8000 samples").waitFor(); // at the rate of 16 kHz
      await send.click();
      await page.getByText(/FP16 \[1, ?8000\]/).waitFor();
      await shot(page, "15-sound");
      await axe(page, report, "sound");
    });
  }
  await report.step("an output that is sound is shown as a waveform, and played", async () => {
    const repo = (await api(base, "GET", "/api/server")).repositories[0].path;
    const aside = path.join(repo, ".e2e_sound");
    fs.mkdirSync(path.join(aside, "1"), { recursive: true });
    fs.writeFileSync(path.join(aside, "config.pbtxt"), echo.config);
    fs.writeFileSync(path.join(aside, "1", "model.py"), echo.model);
    const folder = path.join(repo, "e2e_sound");
    fs.renameSync(aside, folder);
    await eventually(() => api(base, "GET", "/api/models"), (all) => all.models.some((m) => m.name === "e2e_sound" && m.state === "READY"));
    await page.goto(`${base}/#/models/e2e_sound/try`);
    await page.locator("input[accept='audio/*']").setInputFiles({ name: "beep.wav", mimeType: "audio/wav", buffer: wav(16_000, 160_000) });
    await send.click();
    const result = page.locator("section", { hasText: "Result" });
    await result.getByRole("img", { name: "Sound of audio_out" }).waitFor();
    await result.getByLabel("Rate").selectOption("8000");
    await result.getByText("20 s, 160000 samples").waitFor();
    await result.getByRole("button", { name: "Play" }).click();
    await result.getByRole("button", { name: "Stop" }).click();
    await result.getByRole("button", { name: "Play" }).waitFor();
    await axeEverywhere(page, report, "sound of an output", "15-sound-output", result);
    fs.rmSync(folder, { recursive: true });
  });
  await report.step("a picture file is sent as it is, and the answer is drawn over it", async () => {
    const repo = (await api(base, "GET", "/api/server")).repositories[0].path;
    const aside = path.join(repo, ".e2e_boxes");
    fs.mkdirSync(path.join(aside, "1"), { recursive: true });
    fs.writeFileSync(path.join(aside, "config.pbtxt"), boxes.config);
    fs.writeFileSync(path.join(aside, "1", "model.py"), boxes.model);
    fs.renameSync(aside, path.join(repo, "e2e_boxes"));
    await eventually(() => api(base, "GET", "/api/models"), (all) => all.models.some((m) => m.name === "e2e_boxes" && m.state === "READY"));
    await page.goto(`${base}/#/models/e2e_boxes/try`);
    report.check((await page.getByRole("button", { name: "File", exact: true }).getAttribute("aria-pressed")) === "true", "the input takes a file");
    await page.locator("input[type=file]").first().setInputFiles(path.join(root, "docs", "examples", "ocr", "pages", "02.jpg"));
    await page.getByText("The file is sent as it is").waitFor();
    await send.click();
    const drawn = page.getByRole("img", { name: "Boxes: 1", exact: true });
    await drawn.getByText("moon 0.9").waitFor(); // the other box has a score below 0.3
    report.check((await drawn.locator("polygon").getAttribute("points")) === "10,20 110,20 110,80 10,80", "the box has its corners");
    await page.getByText("Over the picture: boxes, heat").waitFor();
    await page.getByLabel("Least score").fill("0.1");
    await page.getByRole("img", { name: "Boxes: 2", exact: true }).waitFor();
    await shot(page, "15-boxes");
    await axe(page, report, "boxes");
    await page.getByText("Request parameters").click();
    await page.getByLabel("Request parameters").fill('{"first": "venus", "late": [1]}');
    await page.getByText("request parameter late: the value is no text").waitFor();
    await page.getByLabel("Request parameters").fill('{"first": "venus"}');
    await send.click();
    await page.getByText("venus 0.9").waitFor();
    await shot(page, "15-parameters");
    await axe(page, report, "parameters");
    for (const kind of process.env.NEREID_PYTHON ? ["Python HTTP", "Python gRPC"] : []) {
      await page.getByRole("button", { name: kind }).click();
      const program = await page.locator("pre[role=region]").textContent();
      const out = execFileSync(process.env.NEREID_PYTHON, ["-c", program], { timeout: 2 * patience, cwd: path.join(root, "docs", "examples", "ocr", "pages") }).toString();
      report.check(out.includes("b'venus'"), `${kind} sends the file and the parameter: ${out}`);
    }
    await page.getByRole("button", { name: "Camera" }).click();
    await page.waitForFunction(() => (document.querySelector("video")?.readyState ?? 0) >= 2);
    await page.getByRole("button", { name: "Take a picture" }).click();
    await page.getByText("camera.jpg: click for another").waitFor();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await send.click();
    await drawn.or(page.getByRole("img", { name: "Boxes: 2", exact: true })).waitFor(); // the model looks whether it is a JPEG
    await api(base, "DELETE", "/api/models/e2e_boxes");
  });
  if (models.includes("digits")) {
    await report.step("an input takes a picture of the camera", async () => {
      await page.goto(`${base}/#/models/digits/try`);
      await page.getByRole("button", { name: "Camera" }).click();
      await page.waitForFunction(() => (document.querySelector("video")?.readyState ?? 0) >= 2);
      await page.getByRole("button", { name: "Take a picture" }).click();
      await page.getByText("camera.png: click for another").waitFor();
      await page.getByRole("button", { name: "Close", exact: true }).click();
      await send.click();
      await page.locator("section", { hasText: "Result" }).locator("ol li").first().waitFor();
      await shot(page, "15-camera");
    });
  }
  if (models.includes("running_sum")) {
    await report.step("requests of a sequence follow each other", async () => {
      await page.goto(`${base}/#/models/running_sum/try`);
      await page.getByLabel("Correlation ID").fill("4711");
      for (const [value, sum, last] of [[3, 3, false], [4, 7, false], [5, 12, true]]) {
        await page.getByLabel("Values of value").fill(`[${value}]`);
        if (last) await page.getByRole("checkbox", { name: "last" }).check();
        await send.click();
        await page.locator("ol[aria-label='Requests of the sequence'] li", { hasText: `sum ${sum}` }).waitFor();
        report.check(!last === !(await page.getByRole("checkbox", { name: "first" }).isChecked()), "the next request is the first only after the last");
      }
      report.check((await page.getByLabel("Correlation ID").inputValue()) === "4712", "after the last another sequence begins");
      await shot(page, "16-sequence");
      await axe(page, report, "sequence");
    });
  }
}

/** A WAV file of n samples of a tone, 16 bits, one channel. */
function wav(rate, n) {
  const b = Buffer.alloc(44 + 2 * n);
  b.write("RIFF", 0);
  b.writeUInt32LE(36 + 2 * n, 4);
  b.write("WAVEfmt ", 8);
  for (const [at, v, bytes] of [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, rate, 4], [28, 2 * rate, 4], [32, 2, 2], [34, 16, 2]]) b.writeUIntLE(v, at, bytes);
  b.write("data", 36);
  b.writeUInt32LE(2 * n, 40);
  for (let i = 0; i < n; i++) b.writeInt16LE(Math.round(20_000 * Math.sin((i * 2 * Math.PI * 440) / rate)), 44 + 2 * i);
  return b;
}
