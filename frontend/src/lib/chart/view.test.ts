import { describe, expect, it } from "vitest";
import type { Series } from "../api.gen";
import { SampleRing } from "../ring";
import { extend } from "./view.svelte";

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
