import { describe, expect, it } from "vitest";
import type { Series } from "../api.gen";
import { csv, frame, stepFor, sum, waiting } from "./frame";

describe("frame", () => {
  it("shows a gap where nothing was recorded", () => {
    expect(frame([{ tMs: [1000, 2000, 5000], values: [1, 2, 5] }], 1000)).toEqual([[1, 2, 3, 5], [1, 2, null, 5]]);
  });
  it("puts series on one axis", () => {
    expect(frame([{ tMs: [1000, 2000], values: [1, 2] }, { tMs: [2000, 3000], values: [20, null] }], 1000)).toEqual([[1, 2, 3], [1, 2, null], [null, 20, null]]);
  });
  it("bears a little jitter", () => {
    expect(frame([{ tMs: [1000, 2300], values: [1, 2] }], 1000)[0]).toEqual([1, 2.3]);
  });
  it("is empty for nothing", () => expect(frame([], 1000)).toEqual([[]]));
});

it.each([[10_000, 1000], [600_000, 1000], [3_600_000, 6000]])("stepFor(%s) = %s", (span, want) => expect(stepFor(span)).toBe(want));

describe("sum", () => {
  it("adds what there is at each time", () => {
    expect(sum([{ tMs: [1000, 3000], values: [1, null] }, { tMs: [1000, 2000], values: [10, 20] }])).toEqual({ tMs: [1000, 2000], values: [11, 20] });
  });
});

describe("csv", () => {
  it("has UTC times, empty fields for gaps, and quotes", () => {
    expect(csv([[0, 1.5], [1, null], [null, 2]], ["a", 'b, "c"'])).toBe('time,a,"b, ""c"""\r\n1970-01-01T00:00:00.000Z,1,\r\n1970-01-01T00:00:01.500Z,,2\r\n');
  });
});

it("the queue's length follows from the rate of requests that ended and how long they waited", () => {
  const s: Series = {
    model: "m", version: "1", tMs: [0, 1000, 2000], requests: [20, 0, 10], failures: [10, 0, 0], qps: [20, 0, 10], queueUs: [500_000, null, 1000],
    p50Us: [], p95Us: [], p99Us: [], computeUs: [], batchMean: [],
  };
  expect(waiting(s)).toEqual({ tMs: s.tMs, values: [5, 0, 0.01] });
});
