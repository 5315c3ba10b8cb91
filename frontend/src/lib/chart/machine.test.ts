import { describe, expect, it } from "vitest";
import type { GPU, Machine } from "../api.gen";
import { liveReadings, toTracks } from "./machine";

const gpu = { index: 1, utilization: 0.5, usedBytes: 7 } as GPU;
const machine = (tMs: number, cpuBusy: number | null): Machine => ({ tMs, cpuBusy, memoryBytes: 100, memoryFreeBytes: 40, gpus: [gpu] }) as unknown as Machine;

describe("readings of the machine", () => {
  it("are collected from the stream, per GPU, for a quarter of an hour", () => {
    let r = liveReadings([], machine(1000, 0.25));
    r = liveReadings(r, machine(1000, 0.9)); // the same event again
    r = liveReadings(r, machine(3000, 0.75));
    expect(r.map((x) => [x.name, x.tMs, x.mean])).toEqual([
      ["cpu", [1000, 3000], [0.25, 0.75]], ["memory", [1000, 3000], [60, 60]], ["gpu1", [1000, 3000], [0.5, 0.5]], ["gpu_memory1", [1000, 3000], [7, 7]],
    ]);
    expect(liveReadings(r, machine(3000 + 15 * 60_000, 0.5))[0]?.tMs).toEqual([3000, 3000 + 15 * 60_000]);
  });
  it("follow the recorded minutes without an overlap", () => {
    const recorded = [{ name: "cpu", tMs: [60_000, 120_000], mean: [0.1, 0.2], most: [0.3, 0.4] }];
    const fresh = [{ name: "cpu", tMs: [170_000, 180_000, 182_000], mean: [1, 2, 3], most: [1, 2, 3] }];
    const { mean, most } = toTracks(recorded, fresh, 0);
    expect(mean.get("cpu")).toEqual({ tMs: [60_000, 120_000, 180_000, 182_000], values: [0.1, 0.2, 2, 3] });
    expect(most.get("cpu")?.values).toEqual([0.3, 0.4, 2, 3]);
  });
});
