import { beforeEach, describe, expect, it } from "vitest";
import type { Request, RequestDetail } from "./api.gen";
import { i18n } from "./i18n/index.svelte";
import { explain, filterOf, merge, parts, partSize, queryOf } from "./requests";

const request = (change: Partial<Request>): Request => ({
  id: 1, parent: 0, tMs: 0, protocol: "http", client: "127.0.0.1", model: "mlp", version: "1", requestId: "", outcome: "ok", slow: false,
  cached: false, kept: false, status: 200, cause: "", text: "", target: "", bytesIn: 0, bytesOut: 0, responses: 1, rows: 1, instance: "mlp_0_0",
  batchRows: 1, batchRequests: 1, durationUs: 10_000, phasesUs: [0, 0, 8100, 0, 1900, 0, 0, 0], busyUs: 0, busyRows: 0, busyRequests: 0, ...change,
});
const words = (change: Partial<Request>, more: Partial<RequestDetail> = {}) =>
  explain({ request: request(change), steps: [], aheadBatches: 0, aheadRows: 0, ...more }).join(" ");

describe("explain", () => {
  beforeEach(() => i18n.set("en"));

  it("names the batch for which a request waited, and those with which it ran", () => {
    expect(words({ busyUs: 7900, busyRows: 64, busyRequests: 64, batchRows: 13, batchRequests: 13 })).toBe(
      "It waited 8.10 ms. For 7.90 ms of that, instance mlp_0_0 was busy with a batch of 64. " +
        "It ran for 1.90 ms in mlp_0_0, with 12 others in a batch of 13.",
    );
  });
  it("says how much ran before it", () => expect(words({}, { aheadBatches: 3, aheadRows: 96 })).toContain("3 other batches of its model began, with 96 rows"));
  it("leaves out a wait that is nothing", () => expect(words({ phasesUs: [0, 0, 1, 0, 9000, 0, 0, 0] })).toBe("It ran alone in mlp_0_0, for 9.00 ms."));
  it("names the longest step", () => {
    const steps = [request({ id: 2, parent: 1, model: "a", durationUs: 10 }), request({ id: 3, parent: 1, model: "b", durationUs: 90 })];
    expect(words({ instance: "" }, { steps })).toBe("It made 2 requests to other models. The longest was of b, with 90.0 µs.");
  });
  it("says that a request never ran", () => {
    expect(words({ outcome: "cancelled", instance: "" })).toBe("It waited 8.10 ms and did not run.");
    expect(words({ outcome: "refused", instance: "", phasesUs: [] })).toBe("It did not reach an instance.");
  });
  it("mentions the way of the messages if it is long", () =>
    expect(words({ phasesUs: [4000, 0, 0, 0, 4000, 0, 1500, 500] })).toContain("Reading it took 4.00 ms, and the answer 2.00 ms."));
});

it("keeps a filter in the address, and ignores what it does not know", () => {
  const f = { show: "slow", model: "a b", client: "", id: "x&y", from: "5", to: "", text: "" } as const;
  expect(filterOf(queryOf(f))).toEqual(f);
  expect(filterOf("show=other&page=3")).toEqual({ show: "", model: "", client: "", id: "", text: "", from: "", to: "" });
  expect(filterOf("from=1700000000000&to=soon")).toMatchObject({ from: "1700000000000", to: "" });
});

it("merges requests by their number, the newest first", () => {
  const list = [5, 3, 1].map((id) => request({ id }));
  const merged = merge(list, [request({ id: 4 }), request({ id: 5, slow: true })], 3);
  expect(merged.map((r) => [r.id, r.slow])).toEqual([[5, true], [4, false], [3, false], [1, false]]);
});

it("leaves the parts of a list as they are while it grows and is cut", () => {
  const list = (from: number, n: number) => Array.from({ length: n }, (_, i) => request({ id: from - i }));
  const before = list(1000, 2 * partSize + 3);
  expect(parts(before).map((p) => p.length)).toEqual([3, partSize, partSize]);
  const after = merge(before, list(1000 + partSize, partSize), 2 * partSize);
  expect(after.length).toBe(2 * partSize + 3);
  expect(parts(after)[2]).toEqual(parts(before)[1]);
  expect(parts([])).toEqual([]);
});
