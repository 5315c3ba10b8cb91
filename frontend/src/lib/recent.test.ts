import { describe, expect, it, vi } from "vitest";
import { noteServerTime, serverNow } from "./clock";
import * as feed from "./feed";
import type { FeedMessage } from "./feed";
import { live } from "./live.svelte";
import { summary } from "./recent";
import { SampleRing } from "./ring";
import { model } from "./testmodel";

describe("summary", () => {
  const recent = { qps: 4, requests: 240, failures: 2, p50Us: 100, p99Us: 900, spark: [1, 2], failureSpark: [0, 1], endMs: 0 };
  const version = (v: string) => ({ version: v, state: "READY" as const, condition: "" as const, reason: "", sinceMs: 0, loadMs: 0, evicted: false, golden: 0, fetchedBytes: 0, fetchBytes: 0, lastMinute: recent });
  it("takes the server's figures without samples", () => {
    const s = summary(model("m", [version("1"), version("2")]), () => undefined, 0);
    expect([s.qps, s.failures, s.p50Us, s.spark.length, s.spark.at(-1)]).toEqual([8, 4, 100, 60, 4]);
  });
  it("prefers live samples, and the latency of the busiest version", () => {
    const ring = new SampleRing(60);
    for (let i = 1; i <= 10; i++) ring.push(i * 1000, { requests: 50, failures: 1, p50Us: 7, p95Us: 8, p99Us: 9, queueUs: 0, computeUs: 0, batchMean: 1, minuteP50Us: i, minuteP99Us: 10 * i });
    const s = summary(model("m", [version("1"), version("2")]), (v) => (v.version === "2" ? ring : undefined), 10_000);
    expect([s.p50Us, s.p99Us]).toEqual([10, 100]); // of the minute that ends with the newest second, not of that second
    expect(s.qps).toBe(4 + 50);
    expect(s.failures).toBe(2 + 10);
    expect(summary(model("m", [version("2")]), () => ring, 10_000).failed).toBe(0.02);
  });
  it("counts the requests from before the page was opened, also before the first samples", () => {
    let receive: (m: FeedMessage[]) => void = () => undefined;
    const joined = vi.spyOn(feed, "join").mockImplementation((_, f) => ((receive = f), { leave: () => undefined, watch: () => undefined }));
    live.start();
    const v = { ...version("1"), lastMinute: { ...recent, spark: [3, 3, 3], failureSpark: [1, 1, 1], endMs: 60_000 } };
    const send = (topic: string, data: unknown) => receive([{ topic, data: JSON.stringify(data), atMs: 60_100 }]);
    send("models", { tMs: 60_100, full: true, models: [model("flaky", [v])], removed: [] });
    const now = () => summary(live.model("flaky")!, (x) => live.ring("flaky", x.version), live.nowMs);
    expect([now().failures, now().failed, now().p50Us, now().p99Us]).toEqual([3, 1 / 3, 100, 900]);
    send("samples", { tMs: 60_000, samples: [{ model: "flaky", version: "1", requests: 3, failures: 1, p50Us: 5, p95Us: 5, p99Us: 5, queueUs: 1, computeUs: 1, batchMean: 1, minuteP50Us: 90, minuteP99Us: 800 }] });
    expect([now().failures, now().failed, now().p50Us, now().p99Us]).toEqual([4, 1 / 3, 90, 800]);
    send("samples", { tMs: 61_000, samples: [], refusedMinute: 7 });
    expect(live.refusedMinute).toBe(7);
    expect(now().p50Us).toBeNull(); // no request in the last minute, says the server
    live.stop();
    joined.mockRestore();
  });
  it("keeps new samples when the browser's clock is ahead of the server's", () => {
    let receive: (m: FeedMessage[]) => void = () => undefined;
    const joined = vi.spyOn(feed, "join").mockImplementation((_, f) => ((receive = f), { leave: () => undefined, watch: () => undefined }));
    live.start();
    const v = { ...version("1"), lastMinute: { ...recent, spark: [3, 3, 3], failureSpark: [1, 1, 1], endMs: 60_000 } };
    const send = (topic: string, data: unknown) => receive([{ topic, data: JSON.stringify(data), atMs: 3_660_100 }]);
    send("models", { tMs: 60_100, full: true, models: [model("ahead", [v])], removed: [] });
    send("samples", { tMs: 60_000, samples: [{ model: "ahead", version: "1", requests: 3, failures: 1, p50Us: 5, p95Us: 5, p99Us: 5, queueUs: 1, computeUs: 1, batchMean: 1, minuteP50Us: 90, minuteP99Us: 800 }] });
    expect(live.ring("ahead", "1")?.newestMs()).toBe(60_000);
    expect(summary(live.model("ahead")!, (x) => live.ring("ahead", x.version), live.nowMs).failures).toBe(4);
    expect(Math.abs(serverNow() - (Date.now() - 3_600_000))).toBeLessThan(1000);
    noteServerTime(0, 0);
    live.stop();
    joined.mockRestore();
  });
  it("counts a second that the server recorded late, and fills the gap of a lost stream", () => {
    let receive: (m: FeedMessage[]) => void = () => undefined;
    const joined = vi.spyOn(feed, "join").mockImplementation((_, f) => ((receive = f), { leave: () => undefined, watch: () => undefined }));
    live.start();
    const send = (topic: string, data: unknown) => receive([{ topic, data: JSON.stringify(data), atMs: 60_100 }]);
    const models = (tMs: number, spark: number[], failureSpark: number[], endMs: number) =>
      send("models", { tMs, full: true, models: [model("late", [{ ...version("1"), lastMinute: { ...recent, spark, failureSpark, endMs } }])], removed: [] });
    const now = () => summary(live.model("late")!, (x) => live.ring("late", x.version), live.nowMs);
    models(61_100, [3, 3], [1, 1], 60_000); // the second before 61_000 is not recorded yet
    send("samples", { tMs: 60_000, samples: [{ model: "late", version: "1", requests: 3, failures: 1, p50Us: 5, p95Us: 5, p99Us: 5, queueUs: 1, computeUs: 1, batchMean: 1, minuteP50Us: 90, minuteP99Us: 800 }] });
    expect([now().spark.reduce((a, b) => a + b), now().failures]).toEqual([9, 3]);
    models(65_100, [3, 3, 3, 0, 9, 9, 0], [1, 1, 1, 0, 2, 2, 0], 65_000); // the stream was lost for four seconds
    expect([now().spark.reduce((a, b) => a + b), now().failures]).toEqual([27, 7]);
    live.stop();
    joined.mockRestore();
  });
});
