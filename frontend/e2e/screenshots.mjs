// The pictures of README.md: a server with the sample models under a light load of them all, as the page shows it after
// a minute. They are written into docs/images.
//
//   node e2e/screenshots.mjs ../build/bin/nereid
//
// NEREID_CHROMIUM: browser. NEREID_PYTHON: a Python with numpy, for the sample models that are Python. The server keeps
// all that it writes in a temporary folder, which goes at the end.
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { open, Report, root } from "./lib.mjs";

const nereid = path.resolve(process.argv[2] ?? path.join(root, "build/bin/nereid"));
const work = fs.mkdtempSync(path.join(os.tmpdir(), "nereid-screenshots-"));
const images = path.join(root, "docs", "images");
const python = process.env.NEREID_PYTHON ?? "python3";
/** Requests per second of each model while the pictures are taken, steep enough that the charts have a shape. */
const load = { mlp: [200, 300, 350, 260], add_sub: [120, 90, 150, 140], digits: [30, 60, 80, 45], digits_py: [8, 12, 5, 9], builtin_identity: [20, 40, 30, 22] };
const seconds = 20; // of each rate

const children = [];
function start(args) {
  const child = spawn(nereid, args, { cwd: work, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return child;
}

/** The addresses that the server prints as it starts. */
async function addresses(server) {
  const at = {};
  for await (const line of readline.createInterface({ input: server.stderr })) {
    const found = /Started (HTTPService|GUI) at (?:http:\/\/)?([0-9.:]+)/.exec(line);
    if (found) at[found[1]] = found[2];
    if (at.HTTPService && at.GUI) {
      server.stderr.resume();
      return at;
    }
  }
  throw new Error("the server ended before it served");
}

async function drive(address, model, rates) {
  for (const rate of rates) {
    const perf = start(["perf", "-m", model, "-u", address, "--request-rate-range", `${rate}`, "--request-distribution", "poisson",
      "--request-count", `${rate * seconds}`]);
    perf.stdout.resume();
    perf.stderr.resume();
    await once(perf, "close");
  }
}

try {
  fs.mkdirSync(images, { recursive: true });
  fs.cpSync(path.join(root, "models-sample"), path.join(work, "models"), {
    recursive: true,
    filter: (from) => !/identity_|_int32/.test(path.basename(from)), // one model a data type would fill the list
  });
  const server = start(["serve", "--model-repository=models", "--data-dir=data", "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0",
    `--backend-config=python,python=${python}`]);
  server.stdout.resume();
  const at = await addresses(server);
  const driven = Promise.all(Object.entries(load).map(([model, rates]) => drive(at.HTTPService, model, rates)));
  const { browser, page } = await open(`http://${at.GUI}`, new Report());
  await page.setViewportSize({ width: 1280, height: 640 });
  await page.getByText("mlp", { exact: true }).waitFor();
  await page.waitForTimeout(60_000); // a minute of load, which is what the list shows
  await page.screenshot({ path: path.join(images, "models.png") });
  await page.goto(`http://${at.GUI}/#/models/mlp/charts`);
  await page.getByText("Requests per second").waitFor();
  await page.waitForTimeout(10_000); // the pause in which the last rates pass
  await page.screenshot({ path: path.join(images, "charts.png") });
  await browser.close();
  await driven;
} finally {
  for (const child of children) child.kill();
  await Promise.all(children.filter((c) => c.exitCode === null && c.signalCode === null).map((c) => once(c, "close")));
  fs.rmSync(work, { recursive: true, force: true });
}
