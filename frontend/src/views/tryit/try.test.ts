import { cleanup, render, screen } from "@testing-library/svelte";
import { afterEach, expect, it, vi } from "vitest";
import type { Framework, Model, Version } from "../../lib/api.gen";
import { frameworks } from "../../lib/frameworks.svelte";
import Try from "./Try.svelte";

vi.stubGlobal("fetch", vi.fn(() => new Promise<Response>(() => undefined))); // no server answers
afterEach(() => {
  cleanup();
  frameworks.all = null;
});

const model: Model = {
  name: "net", state: "UNAVAILABLE", condition: "", reason: "", versions: [], backend: "pytorch", platform: "", maxBatchSize: 0, dynamicBatching: false, decoupled: false, ensemble: false, sequences: false,
  inputs: [], outputs: [], instances: 0, repository: "", folder: "", configPath: "", configExists: true, memoryBytes: 0, gpuBytes: 0, gpuSource: "", memorySource: "", pinned: false, resident: false,
};
const version: Version = {
  version: "1", state: "UNAVAILABLE", condition: "", reason: "", sinceMs: 0, loadMs: 0, evicted: false, golden: 0, fetchedBytes: 0, fetchBytes: 0,
  lastMinute: { qps: 0, requests: 0, failures: 0, p50Us: null, p99Us: null, spark: [], failureSpark: [], endMs: 0 },
};
const torch: Framework = { name: "pytorch", title: "PyTorch", package: "torch==2", size: "5 GB", state: "missing", sinceMs: 0, log: [], reason: "", waiting: [] };
const load = () => screen.queryByRole("button", { name: "Load" });

it("offers to load a model, unless something must be installed first", () => {
  frameworks.all = [torch];
  render(Try, { model: { ...model, versions: [{ ...version, reason: "unloaded" }] }, labels: {} });
  expect(load(), "an unloaded model may find its framework elsewhere").not.toBeNull();
  cleanup();
  render(Try, { model: { ...model, condition: "installing" }, labels: {} });
  expect(load()).toBeNull();
  expect(screen.getByText(/packages are being installed/)).toBeTruthy();
  cleanup();
  const lacking: Model = { ...model, versions: [{ ...version, reason: "PyTorch is not installed, which model 'net' needs" }] };
  render(Try, { model: lacking, labels: {} });
  expect(load()).toBeNull();
  expect(screen.getByRole("button", { name: "Install PyTorch…" })).toBeTruthy();
  cleanup();
  frameworks.all = [{ ...torch, state: "installing" }];
  render(Try, { model: lacking, labels: {} });
  expect(load()).toBeNull();
  expect(screen.getByText(/packages are being installed/)).toBeTruthy();
  cleanup();
  frameworks.all = [{ ...torch, state: "installed" }];
  render(Try, { model: lacking, labels: {} });
  expect(load()).not.toBeNull();
});
