import { describe, expect, it } from "vitest";
import { SampleRing } from "./ring";

const sample = (requests: number, p50Us: number | null = null) => ({
  requests, failures: 0, p50Us, p95Us: null, p99Us: null, queueUs: null, computeUs: null, batchMean: null, minuteP50Us: p50Us, minuteP99Us: null,
});
const times = (r: SampleRing, after = -Infinity) => {
  const out: number[] = [];
  r.each(after, (t) => out.push(t));
  return out;
};

describe("SampleRing", () => {
  it("keeps the newest samples only", () => {
    const r = new SampleRing(3);
    for (let i = 1; i <= 5; i++) r.push(i * 1000, sample(i));
    expect(times(r)).toEqual([3000, 4000, 5000]);
    expect(r.length).toBe(3);
    expect(r.newestMs()).toBe(5000);
  });

  it("leaves out what is not later than the newest", () => {
    const r = new SampleRing(4);
    r.push(2000, sample(1));
    r.push(2000, sample(9));
    r.push(1000, sample(9));
    expect(times(r)).toEqual([2000]);
    expect(r.newest("requests", 0)).toBe(1);
  });

  it("gives null back for null, and only later samples", () => {
    const r = new SampleRing(4);
    r.push(1000, sample(1, 50));
    r.push(2000, sample(0));
    const got: (number | null)[] = [];
    r.each(0, (_, get) => got.push(get("p50Us")));
    expect(got).toEqual([50, null]);
    expect(times(r, 1000)).toEqual([2000]);
    expect(r.newest("p50Us", 0)).toBeNull();
    expect(r.newest("requests", 1999)).toBe(0);
    expect(r.newest("requests", 2000)).toBeNull();
  });

  it("makes a spark with zeros where nothing was", () => {
    const r = new SampleRing(10);
    r.push(7000, sample(3));
    r.push(9000, sample(5));
    expect(r.spark(10_000, 4)).toEqual([3, 0, 5, 0]);
    expect(new SampleRing(1).spark(10_000, 3)).toEqual([0, 0, 0]);
  });
});
