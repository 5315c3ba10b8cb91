import { cleanup, fireEvent, render, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Model, StartConversion, Tuning, TuningTrial, Tunings } from "../../lib/api.gen";
import { converting } from "../../lib/converting.svelte";
import { TuningForm } from "../../lib/tuningform.svelte";
import Suggestions from "./Suggestions.svelte";

const trial = (config: number, load: number, rate: number, failed = ""): TuningTrial => ({ config, load, rate, p50Us: 500, p90Us: 800, p99Us: 1000, queueUs: 0, computeUs: 0, cores: 1, memoryBytes: 1 << 20, gpuMemoryBytes: 0, gpuUtilization: 0, gpuPowerW: 0, stable: true, keeps: true, failed, models: [] });
const change = (field: string, from: number, to: number) => ({ changes: [{ model: "m", field, from, to }] });
const each: Tuning = {
  id: 7, model: "m", state: "done", reason: "", startedMs: 1000, endedMs: 21_000, request: { ...new TuningForm().request(), search: "each" }, measured: 7, most: 7,
  best: null, present: null, bestChanges: [], applied: 0, appliedConfig: 0, plan: { axes: [], size: 7, most: 7, leastMs: 0, mostMs: 0 },
  configs: [{ changes: [] }, change("instance_count", 1, 2), change("intra_op_threads", 0, 1), change("max_batch_size", 8, 32)],
  trials: [trial(0, 1, 100), trial(0, 8, 400), trial(1, 1, 80), trial(1, 8, 600), trial(2, 1, 105), trial(3, 8, 0, "out of memory")], from: 0, now: null, stale: "",
};
const model = { name: "m", state: "READY", versions: [], inputs: [], decoupled: false } as unknown as Model;

let answers: Record<string, unknown>;
let asked: { key: string; body: unknown }[];
beforeEach(() => {
  asked = [];
  answers = { "GET /api/models/m/tunings": { tunings: [each], writable: true, whyNot: "" } satisfies Tunings, "GET /api/models/m/tunings/7": each };
  vi.stubGlobal("fetch", vi.fn(async (url: string, init: RequestInit) => {
    const key = `${init.method} ${url.split("?")[0]}`;
    asked.push({ key, body: typeof init.body === "string" ? JSON.parse(init.body) : undefined });
    const a = answers[key];
    if (a === undefined) return new Response(JSON.stringify({ error: `nobody answers ${key}`, code: "not_found", faults: [] }), { status: 404 });
    return new Response(JSON.stringify(a), { status: 200 });
  }));
});
afterEach(() => {
  cleanup();
  converting.job = null;
});

it("compares each change with the present configuration under the same load, and applies one of a real gain", async () => {
  answers["POST /api/models/m/tunings/7/apply"] = { saves: [{ revision: { id: 3, model: "m" }, outcome: "loaded", reason: "", loadMs: 5, keepsServing: false }] };
  render(Suggestions, { model });
  const best = await screen.findByRole("row", { name: /instances 1 → 2.*Clients: 8/ });
  expect(within(best).getByText("+50 %")).toBeTruthy();
  expect(screen.getByRole("row", { name: /instances 1 → 2.*Clients: 1/ }).textContent).toContain("−20 %");
  expect(screen.getByRole("row", { name: /max batch size 8 → 32/ }).textContent).toContain("out of memory");
  expect(screen.getAllByRole("button", { name: "Apply" })).toHaveLength(1); // 5 % may be noise
  const apply = within(best).getByRole<HTMLButtonElement>("button", { name: "Apply" });
  await vi.waitFor(() => expect(apply.disabled).toBe(false));
  answers["GET /api/models/m/tunings/7"] = { ...each, stale: "configuration" };
  await fireEvent.click(apply);
  await vi.waitFor(() => expect(screen.queryByRole("button", { name: "Apply" })).toBeNull()); // the other rows are of the old one
  expect(await screen.findByText(/The configuration is written and loaded/)).toBeTruthy();
  expect(asked.find((a) => a.key.endsWith("/apply"))?.body).toEqual({ config: 1 });
});

it("applies nothing that was measured with other files or another configuration", async () => {
  for (const [stale, why] of [["files", /The files of the model have changed/], ["configuration", /The configuration has changed/]] as const) {
    answers["GET /api/models/m/tunings/7"] = { ...each, stale };
    render(Suggestions, { model });
    expect(await screen.findByText(why)).toBeTruthy();
    expect(screen.getByRole("row", { name: /instances 1 → 2.*Clients: 8/ })).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Apply" })).toBeNull();
    cleanup();
  }
});

it("measures a precision by a conversion with captured requests, where there are some", async () => {
  const report = { model: "m_int8", framework: "ONNX", rows: 4, made: false, outputs: [], differs: "", bytesBefore: 8, bytesAfter: 2, msBefore: 3, msAfter: 2, provider: "CPUExecutionProvider", low: true };
  const job = { id: "c", state: "done", step: "", reason: "", report, path: "/m_int8" };
  answers["GET /api/models/m/capture"] = { kept: 4 };
  answers["POST /api/conversions"] = { ...job, state: "open", report: null };
  answers["POST /api/conversions/c/start"] = job;
  render(Suggestions, { model });
  await fireEvent.click(await screen.findByRole("button", { name: /Measure INT8/ }));
  const row = (await screen.findByText(/3.00 → 2.00 ms, CPUExecutionProvider/)).closest("tr") ?? document.body;
  expect(row.textContent).toContain("+50 %");
  expect(within(row).getByRole("button", { name: "Add to the repository" })).toBeTruthy();
  const sent = asked.find((a) => a.key.endsWith("/start"))?.body as StartConversion;
  expect([sent.model, sent.target, sent.capturedRequests, sent.savedRequests]).toEqual(["m", "int8", true, false]);
});
