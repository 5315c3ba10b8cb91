import { cleanup, fireEvent, render, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Model, Tuning, TuningPlan, Tunings, TuningTrial } from "../../../lib/api.gen";
import { TuningForm } from "../../../lib/tuningform.svelte";
import Tune from "./Tune.svelte";
import TuneChart from "./TuneChart.svelte";
import TuneTable from "./TuneTable.svelte";

const trial = (x: Partial<TuningTrial>): TuningTrial => ({ config: 0, load: 8, rate: 100, p50Us: 500, p90Us: 800, p99Us: 1000, queueUs: 0, computeUs: 0, cores: 1, memoryBytes: 1 << 20, gpuMemoryBytes: 0, gpuUtilization: 0, gpuPowerW: 0, stable: true, keeps: true, failed: "", models: [], ...x });
const plan: TuningPlan = { axes: [{ model: "m", field: "instance_count", values: [1, 2], present: 1 }, { model: "", field: "load", values: [8], present: 8 }], size: 2, most: 2, leastMs: 6000, mostMs: 16_000 };
const trials = [trial({}), trial({ config: 1, rate: 150, p99Us: 800 }), trial({ config: 2, rate: 0, failed: "out of memory" })];
const changes = [{ model: "m", field: "instance_count", from: 1, to: 2 }];
const tuning = (x: Partial<Tuning> = {}): Tuning => ({
  id: 7, model: "m", state: "done", reason: "", startedMs: 1000, endedMs: 21_000, request: { ...new TuningForm().request(), latencyBudgetMs: 5 }, measured: 3, most: 3,
  best: trials[1] ?? null, present: trials[0] ?? null, bestChanges: changes, applied: 0, appliedConfig: 0, plan, configs: [{ changes: [] }, { changes }, { changes: [] }], trials, from: 0, now: null, stale: "", ...x,
});
const model = { name: "m", state: "READY", versions: [], inputs: [], ensemble: false, maxBatchSize: 8 } as unknown as Model;
const texts = { texts: [{ model: "m", before: "a: 1\n", after: "a: 2\n" }] };

/** What the server answers, by method and path; a function may refuse. */
let answers: Record<string, unknown>;
let asked: { key: string; body: unknown }[];
beforeEach(() => {
  asked = [];
  answers = {
    "GET /api/models/m/tunings": { tunings: [], writable: true, whyNot: "" } satisfies Tunings,
    "POST /api/models/m/tunings/plan": plan,
    "GET /api/models/m/tunings/7": tuning(),
    "GET /api/models/m/tunings/7/configs/1": texts,
  };
  vi.stubGlobal("fetch", vi.fn(async (url: string, init: RequestInit) => {
    const key = `${init.method} ${url.split("?")[0]}`;
    asked.push({ key, body: typeof init.body === "string" ? JSON.parse(init.body) : undefined });
    const a = answers[key];
    if (a instanceof Error) return new Response(JSON.stringify({ error: a.message, code: "invalid", faults: [] }), { status: 400 });
    if (a === undefined) throw new Error(`nobody answers ${key}`);
    return new Response(JSON.stringify(a), { status: 200 });
  }));
});
afterEach(cleanup);
const listed = (t: Tuning) => ({ tunings: [t], writable: true, whyNot: "" });
const shown = () => render(Tune, { model, configText: "a: 1\n", onapplied: async () => undefined });

describe("Tune", () => {
  it("shows what will be tried, and that it disturbs, before anything starts", async () => {
    shown();
    expect(await screen.findByText("1 (now), 2")).toBeTruthy();
    expect(screen.getByText(/At most 2 of 2 possible measurements; about 6 s to 16 s/)).toBeTruthy();
    expect(screen.getByText(/Its requests are slower until the search ends/)).toBeTruthy();
    expect(asked.some((a) => a.key === "POST /api/models/m/tunings")).toBe(false);
  });
  it("cannot start what the server refuses, and says why", async () => {
    answers["POST /api/models/m/tunings/plan"] = new Error("these are 9000 measurements, more than 1000");
    shown();
    expect((await screen.findByRole("alert")).textContent).toContain("more than 1000");
    expect((screen.getByRole("button", { name: /Start tuning/ }) as HTMLButtonElement).disabled).toBe(true);
  });
  it("keeps a field whose value takes it out of the plan", async () => {
    shown();
    await screen.findByText("1 (now), 2");
    answers["POST /api/models/m/tunings/plan"] = { ...plan, axes: plan.axes.slice(1), most: 1 };
    await fireEvent.input(screen.getByLabelText("instances"), { target: { value: "present" } });
    await screen.findByText(/At most 1 of/);
    expect((screen.getByLabelText("instances") as HTMLInputElement).value).toBe("present");
  });
  it("starts with what is chosen, and shows how far it is", async () => {
    answers["POST /api/models/m/tunings"] = tuning({ state: "running", endedMs: 0, measured: 1, trials: trials.slice(0, 1), best: trials[0] ?? null, now: { changes, load: 16, rate: 120, p99Us: 900 } });
    answers["GET /api/models/m/tunings/7/configs/0"] = { texts: [] };
    shown();
    await screen.findByText("1 (now), 2");
    await fireEvent.input(screen.getByLabelText("p99 at most, ms"), { target: { value: "5" } });
    await fireEvent.click(screen.getByRole("button", { name: "lowest p99 latency" }));
    await fireEvent.click(screen.getByRole("button", { name: /Start tuning/ }));
    expect(await screen.findByText(/Measuring instances 1 → 2, clients 16: 120\/s, p99 900 µs/)).toBeTruthy();
    expect(asked.find((a) => a.key === "POST /api/models/m/tunings")?.body).toMatchObject({ objective: "latency", latencyBudgetMs: 5 });
    expect(screen.getByText(/1 of at most 3 measured/)).toBeTruthy();
    expect(screen.getByRole("button", { name: "Stop" })).toBeTruthy();
  });
  it("compares the best with the present configuration, and applies it", async () => {
    answers["GET /api/models/m/tunings"] = listed(tuning());
    answers["POST /api/models/m/tunings/7/apply"] = { saves: [{ outcome: "loaded", reason: "", keepsServing: true, loadMs: 12, revision: { id: 3, model: "m" } }] };
    const onapplied = vi.fn(async () => undefined);
    render(Tune, { model, configText: "a: 1\n", onapplied });
    expect(await screen.findByText(/\+50 % throughput and −20 % p99/)).toBeTruthy();
    expect(await screen.findByText("− a: 1")).toBeTruthy();
    await fireEvent.click(screen.getByRole("button", { name: "Apply and reload" }));
    expect(await screen.findByText(/the new configuration serves/)).toBeTruthy();
    expect(asked.find((a) => a.key.endsWith("/apply"))?.body).toEqual({ config: 1 });
    await vi.waitFor(() => expect(onapplied).toHaveBeenCalled());
  });
  it("shows each of several models", async () => {
    const of = (rate: number) => [{ model: "m", rate, p50Us: 1, p99Us: 800 }, { model: "n", rate: 2 * rate, p50Us: 1, p99Us: 400 }];
    const several = [trial({ models: of(100) }), trial({ config: 1, rate: 150, models: of(125) })];
    answers["GET /api/models/m/tunings"] = listed(tuning());
    answers["GET /api/models/m/tunings/7"] = tuning({ trials: several, present: several[0] ?? null, best: several[1] ?? null });
    shown();
    const row = await screen.findByRole("row", { name: /^n / });
    expect(row.textContent).toContain("250/s+25 %400 µs±0 %");
  });
  it.each([
    ["in place", "a: 2\n", true, /is in use/],
    ["changed meanwhile", "a: 3\n", true, /has changed since this tuning/],
    ["not writable", "a: 1\n", false, /cannot be applied here: only read/],
  ])("does not offer to apply what is %s", async (_, configText, writable, why) => {
    answers["GET /api/models/m/tunings"] = { ...listed(tuning()), writable, whyNot: writable ? "" : "only read" };
    render(Tune, { model, configText, onapplied: async () => undefined });
    expect(await screen.findByText(why)).toBeTruthy();
    expect((screen.getByRole("button", { name: "Apply and reload" }) as HTMLButtonElement).disabled).toBe(true);
  });
  it("does not offer to apply figures of other files", async () => {
    answers["GET /api/models/m/tunings"] = listed(tuning());
    answers["GET /api/models/m/tunings/7"] = tuning({ stale: "files" });
    render(Tune, { model, configText: "a: 1\n", onapplied: async () => undefined });
    expect(await screen.findByText(/The files of the model have changed/)).toBeTruthy();
    expect((screen.getByRole("button", { name: "Apply and reload" }) as HTMLButtonElement).disabled).toBe(true);
  });
  it("says why a tuning failed", async () => {
    answers["GET /api/models/m/tunings"] = listed(tuning());
    answers["GET /api/models/m/tunings/7"] = tuning({ state: "failed", reason: "the server does not start", trials: [], best: null, present: null, measured: 0 });
    shown();
    expect((await screen.findByRole("alert")).textContent).toBe("the server does not start");
    expect(screen.getByText("Nothing was measured.")).toBeTruthy();
  });
});

describe("TuneTable", () => {
  it("has a row for each measurement, the failed with their reasons", async () => {
    const onchoose = vi.fn();
    render(TuneTable, { tuning: tuning(), chosen: 1, onchoose });
    const rows = screen.getAllByRole("row").slice(1);
    expect(rows.map((r) => within(r).getByRole("radio"))).toHaveLength(3);
    expect(rows[0]?.textContent).toContain("out of memory");
    expect(rows[1]?.textContent).toContain("best");
    await fireEvent.click(screen.getByRole("button", { name: "p99" }));
    expect(screen.getAllByRole("row")[1]?.textContent).toContain("800 µs");
    await fireEvent.click(within(screen.getAllByRole("row")[2] as HTMLElement).getByRole("radio"));
    expect(onchoose).toHaveBeenCalledWith(0);
  });
});

describe("TuneChart", () => {
  it("draws what was measured, the limit, and rings the best", async () => {
    const { container } = render(TuneChart, { tuning: tuning(), chosen: 1, onchoose: vi.fn() });
    expect(screen.getByRole("img", { name: /Throughput against p99 latency of 2 measurements/ })).toBeTruthy();
    const chart = container.querySelector("figure > svg") as SVGElement;
    expect(chart.querySelectorAll("circle.dot")).toHaveLength(2);
    expect(chart.querySelectorAll("circle.best")).toHaveLength(1);
    expect(chart.querySelectorAll("line.budget")).toHaveLength(1);
    const top = () => Number(chart.querySelectorAll("circle.dot")[0]?.getAttribute("cy"));
    const before = top();
    await fireEvent.change(screen.getByLabelText("Upwards"), { target: { value: "memory" } });
    expect(screen.getByRole("img", { name: /Memory against p99 latency/ })).toBeTruthy();
    expect(top()).not.toBe(before);
    expect(chart.querySelector("title")?.textContent).toBe("present configuration, clients 8: 100/s, p99 1.00 ms");
  });
});
