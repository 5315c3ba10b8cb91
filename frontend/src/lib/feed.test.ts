import { describe, expect, it } from "vitest";
import { merge } from "./feed";
import { model } from "./testmodel";

describe("events about models", () => {
  it("replaces, changes and removes, sorted by name", () => {
    const old = [model("b"), model("c")];
    expect(merge(old, { tMs: 0, full: false, models: [model("a"), { ...model("b"), instances: 9 }], removed: ["c"] }).map((m) => [m.name, m.instances])).toEqual([["a", 1], ["b", 9]]);
    expect(merge(old, { tMs: 0, full: true, models: [], removed: [] })).toEqual([]);
  });
});
