import { describe, expect, it } from "vitest";
import type { Model } from "./api.gen";
import { sorted } from "./modellist";
import { model } from "./testmodel";

describe("the list of models", () => {
  const with_ = (name: string, requests: number, failures: number, memoryBytes: number): Model => ({
    ...model(name, [{ version: "1", state: "READY", condition: "", reason: "", sinceMs: 0, loadMs: 0, evicted: false, golden: 0, fetchedBytes: 0, fetchBytes: 0,
      lastMinute: { requests, failures, qps: 0, p50Us: null, p99Us: requests || null, spark: [requests], failureSpark: [], endMs: 0 } }]), memoryBytes,
  });
  const list = [with_("a", 1, 5, 20), with_("b", 9, 0, 30), with_("c", 0, 0, 10)];
  it.each([["name", "abc"], ["qps", "bac"], ["p99", "bac"], ["failures", "abc"], ["memory", "bac"]] as const)("is sorted by %s", (by, want) => {
    expect(sorted(list, by, 0).map((m) => m.name).join("")).toBe(want);
    expect(list.map((m) => m.name).join("")).toBe("abc");
  });
});
