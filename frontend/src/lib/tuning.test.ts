import { describe, expect, it } from "vitest";
import type { Machine, Model, StartTuning, TuningHead, TuningTrial } from "./api.gen";
import { axisText, changesText, goalText, density, figures, linear, ordered, ratio, resultText, spread } from "./tuning";
import { freeInputs, TuningForm } from "./tuningform.svelte";

const trial = (x: Partial<TuningTrial>): TuningTrial => ({ config: 0, load: 1, rate: 100, p50Us: 1, p90Us: 1, p99Us: 1000, queueUs: 0, computeUs: 0, cores: 1, memoryBytes: 1, gpuMemoryBytes: 0, gpuUtilization: 0, gpuPowerW: 0, stable: true, keeps: true, failed: "", models: [], ...x });
const head = (h: Partial<TuningHead>): TuningHead => ({ id: 1, model: "m", state: "done", reason: "", startedMs: 0, endedMs: 0, request: new TuningForm().request(), measured: 2, most: 2, best: null, present: null, bestChanges: [], applied: 0, appliedConfig: 0, ...h });

describe("words", () => {
  it("says a configuration by its changes", () => {
    expect(changesText([], "m")).toBe("present configuration");
    expect(changesText([
      { model: "m", field: "max_queue_delay", from: -1, to: 1000 }, { model: "part", field: "intra_op_threads", from: 0, to: 2 }, { model: "m", field: "instance_kind", from: 0, to: 1 },
    ], "m")).toBe("dynamic batching off → delay 1,000 µs, part: threads all cores → 2, kind KIND_CPU → KIND_GPU");
  });
  it("marks the present value, but not a load", () => {
    expect(axisText({ model: "m", field: "instance_count", values: [1, 2], present: 2 })).toBe("1, 2 (now)");
    expect(axisText({ model: "", field: "load", values: [8, 16], present: 8 })).toBe("8, 16");
  });
  it("says a difference in percent", () => {
    expect([ratio(132, 100), ratio(50, 100), ratio(100.1, 100), ratio(1, 0)]).toEqual(["+32 %", "−50 %", "±0 %", ""]);
  });
  it("says the goal and the result", () => {
    const r: StartTuning = { ...new TuningForm().request(), latencyBudgetMs: 5, maxMemoryMb: 200, with: ["b"] };
    expect(goalText(r)).toBe("most throughput, p99 at most 5 ms, together with b, memory at most 200 MB");
    expect(goalText({ ...r, objective: "perf_throughput=2", latencyBudgetMs: 0, maxMemoryMb: 0, with: [] })).toBe("perf_throughput=2");
    expect(resultText(head({}))).toContain("No configuration keeps the limits");
    expect(resultText(head({ measured: 0 }))).toBe("Nothing was measured.");
    expect(resultText(head({ best: trial({}), present: trial({}) }))).toContain("is the best that was found");
    const changed = { best: trial({ rate: 150, p99Us: 500 }), bestChanges: [{ model: "m", field: "instance_count", from: 1, to: 2 }] };
    expect(resultText(head({ ...changed, present: trial({}) }))).toContain("+50 % throughput and −50 % p99");
    expect(resultText(head(changed))).toBe("instances 1 → 2");
  });
});

describe("scales", () => {
  it("begins at 0 and ends at a round number", () => {
    const s = linear(730, 300, 0);
    expect(s.ticks).toEqual([0, 200, 400, 600, 800]);
    expect([s.at(0), s.at(800)]).toEqual([300, 0]);
    expect(linear(0, 0, 10).ticks).toEqual([0, 1]);
  });
  it("counts in decades where values differ much", () => {
    const s = spread(100, 50_000, 0, 500);
    expect(s.ticks).toEqual([100, 1000, 10_000]);
    expect(s.at(100)).toBeLessThan(s.at(1000));
    expect(s.at(50_000)).toBeLessThan(500);
    expect(spread(100, 900, 0, 500).ticks[0]).toBe(0);
    expect(spread(0, 900, 0, 500).ticks[0]).toBe(0);
  });
});

describe("G023 the goals of tuning that a chart shows", () => {
  const gib = 1 << 30;
  const machine = { memoryBytes: 16 * gib, gpus: [{ memoryBytes: 8 * gib }] } as unknown as Machine;
  it("has those of GPUs where there are some, and density where the machine is known", () => {
    expect(figures([trial({})], null).map((f) => f.id)).toEqual(["rate", "p99", "p50", "memory", "cores"]);
    const card = trial({ memoryBytes: gib, gpuMemoryBytes: 3 * gib, gpuUtilization: 61.4, gpuPowerW: 70.5 });
    const all = figures([trial({}), card], machine);
    expect(all.map((f) => f.id)).toEqual(["rate", "p99", "p50", "memory", "cores", "gpuUse", "gpuMemory", "gpuPower", "density"]);
    expect(all.map((f) => f.text(f.of(card)))).toEqual(["100/s", "1.00 ms", "1.00 µs", "1.00 GiB", "1.0 cores", "61 %", "3.00 GiB", "71 W", "16 ×"]);
  });
  it("is as dense as the main memory allows, whatever other programs have of the GPUs", () => {
    expect([density(trial({ memoryBytes: 3 * gib }), machine), density(trial({ memoryBytes: gib, gpuMemoryBytes: 7 * gib }), machine), density(trial({ memoryBytes: 0 }), machine)]).toEqual([5, 16, 0]);
  });
});

describe("ordered", () => {
  const trials = [trial({ rate: 5, p99Us: 9 }), trial({ rate: 0, p99Us: 0, failed: "no memory" }), trial({ rate: 7, p99Us: 20 })];
  it.each([["measured", [2, 1, 0]], ["rate", [2, 0, 1]], ["p99", [0, 2, 1]]] as const)("by %s", (by, want) => {
    expect(ordered(trials, by).map((r) => r.n)).toEqual(want);
  });
});

describe("TuningForm", () => {
  it("makes a request of what is typed", () => {
    const f = new TuningForm();
    expect(f.request()).toMatchObject({ objective: "throughput", search: "quick", budget: 60, latencyBudgetMs: 0, concurrency: "", shapes: [] });
    f.search = "brute";
    f.latencyMs = 2.5;
    f.minRate = null; // an emptied field
    f.lists.concurrency = " 1, 2 ";
    f.with = { b: true, c: false };
    f.shapes = { A: "[3, 224]", B: " " };
    expect(f.request()).toMatchObject({ search: "brute", budget: 0, latencyBudgetMs: 2.5, minThroughput: 0, concurrency: "1,2", shapes: ["A:3,224"], with: ["b"] });
  });
  it("asks for shapes of inputs with free sizes", () => {
    const tensor = (name: string, dims: number[], optional = false) => ({ name, dataType: "FP32", shape: [], dims, dimNames: [], format: "", optional, labels: false });
    expect(freeInputs({ inputs: [tensor("a", [4]), tensor("b", [-1, 3]), tensor("c", [-1], true)] } as unknown as Model).map((i) => i.name)).toEqual(["b"]);
  });
});
