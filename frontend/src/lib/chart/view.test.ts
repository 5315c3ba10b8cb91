import { describe, expect, it, vi } from "vitest";
import type { Series } from "../api.gen";
import { SampleRing } from "../ring";
import { client } from "../api";
import { groups } from "../events";
import { ChartView, extend } from "./view.svelte";

const series = (tMs: number[]): Series => ({
  model: "m", version: "1", tMs, requests: tMs.map(() => 1), failures: tMs.map(() => 0), qps: tMs.map(() => 1), p50Us: tMs.map(() => 5),
  p95Us: tMs.map(() => null), p99Us: tMs.map(() => null), queueUs: tMs.map(() => null), computeUs: tMs.map(() => null), batchMean: tMs.map(() => null),
});

describe("extend", () => {
  it("adds the seconds after the history and drops those before the window", () => {
    const ring = new SampleRing(10);
    for (const t of [2000, 3000, 4000]) ring.push(t, { requests: 9, failures: 1, p50Us: null, p95Us: 7, p99Us: 8, queueUs: 1, computeUs: 2, batchMean: 3, minuteP50Us: 4, minuteP99Us: 5 });
    const got = extend(series([1000, 2000, 3000]), ring, 2000);
    expect(got.tMs).toEqual([2000, 3000, 4000]);
    expect(got.qps).toEqual([1, 1, 9]);
    expect(got.p50Us).toEqual([5, 5, null]);
    expect(got.p95Us).toEqual([null, null, 7]);
    expect(got.batchMean).toEqual([null, null, 3]);
  });
  it("is empty when everything is too old", () => expect(extend(series([1000]), undefined, 5000).tMs).toEqual([]));
  it("does not change what it is given", () => {
    const s = series([1000]);
    const ring = new SampleRing(2);
    ring.push(2000, { requests: 1, failures: 0, p50Us: 1, p95Us: 1, p99Us: 1, queueUs: 1, computeUs: 1, batchMean: 1, minuteP50Us: 1, minuteP99Us: 1 });
    extend(s, ring, 0);
    expect(s.tMs).toEqual([1000]);
  });
});

describe("the address", () => {
  it("has the range and the scale, and a view takes them from it", () => {
    vi.spyOn(client, "history").mockResolvedValue({ fromMs: 0, toMs: 0, stepMs: 1000, series: [], total: null, busy: 0, models: [] });
    vi.spyOn(client, "events").mockResolvedValue({ events: [], more: false });
    location.hash = "#/history?model=m";
    const a = new ChartView("");
    a.pick("1h");
    a.setLog(true);
    expect(location.hash).toBe("#/history?model=m&range=1h&log=1");
    const b = new ChartView("");
    b.fromAddress();
    expect([b.rangeID, b.log]).toEqual(["1h", true]);
    b.zoom(1000, 5000);
    expect(location.hash).toBe("#/history?model=m&log=1&from=1000&to=5000");
    a.fromAddress();
    expect([a.rangeID, a.fromMs, a.toMs]).toEqual([null, 1000, 5000]);
    location.hash = "#/history?range=never&from=9&to=3";
    a.fromAddress();
    expect([a.rangeID, a.log]).toEqual(["5m", false]);
    vi.restoreAllMocks();
  });
});

it("groups events that repeat, the newest first", () => {
  const e = (id: number, text: string) => ({ id, tMs: id, kind: "load" as const, severity: "info" as const, model: "m", version: "", text, durationMs: 0, revision: 0, config: "" });
  const g = groups([e(4, "a"), e(3, "b"), e(2, "a"), e(1, "a")]);
  expect(g.events.map((x) => [x.id, g.counts.get(x.id)])).toEqual([[4, 3], [3, 1]]);
});

describe("many models", () => {
  it("asks for the busiest and the total of a day, and again for a model, but for all of the last minutes", () => {
    const asked = vi.spyOn(client, "history").mockResolvedValue({ fromMs: 0, toMs: 0, stepMs: 120_000, series: [], total: null, busy: 0, models: [] });
    vi.spyOn(client, "events").mockResolvedValue({ events: [], more: false });
    location.hash = "#/history";
    const view = new ChartView("", 8);
    view.pick("24h");
    expect(asked.mock.lastCall?.[0]).toMatchObject({ model: "", most: 8 });
    view.filter("m");
    expect(asked.mock.lastCall?.[0]).toMatchObject({ model: "m", most: 8 });
    view.pick("5m");
    expect(asked.mock.lastCall?.[0]).toMatchObject({ model: "" });
    expect(asked.mock.lastCall?.[0]).not.toHaveProperty("most");
  });
});
