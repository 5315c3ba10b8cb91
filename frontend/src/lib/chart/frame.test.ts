import { describe, expect, it } from "vitest";
import { frame, stepFor } from "./frame";

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
