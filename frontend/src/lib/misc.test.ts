import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Model } from "./api.gen";
import { client } from "./api";
import { noteServerTime, serverNow } from "./clock";
import { parcels } from "./drop";
import { fill } from "./i18n/index.svelte";
import { en } from "./i18n/en";
import { zh } from "./i18n/zh";
import { entry } from "./entry.svelte";
import * as feed from "./feed";
import { sorted } from "./modellist";
import { importing } from "./importing.svelte";
import { merge, type FeedMessage } from "./feed";
import { live } from "./live.svelte";
import { search } from "./palette.svelte";
import { rights } from "./rights.svelte";
import { summary } from "./recent";
import { SampleRing } from "./ring";
import { href, parse, router, tabs } from "./router.svelte";
import { isolated } from "./chart/plot";

const model = (name: string, versions: Model["versions"] = []): Model => ({
  name, state: "READY", condition: "", reason: "", versions, backend: "", platform: "", maxBatchSize: 0, dynamicBatching: false, decoupled: false, ensemble: false, sequences: false,
  inputs: [], outputs: [], instances: 1, repository: "", folder: "", configPath: "", configExists: false, memoryBytes: 0, gpuBytes: 0, memorySource: "", gpuSource: "", pinned: false, resident: true,
});
const upload = (path: string) => ({ path, file: new File([], path) });

describe("routes", () => {
  it.each([
    ["", { view: "models" }], ["#/models", { view: "models" }], ["#/models/a%2Fb/try", { view: "model", name: "a/b", tab: "try" }],
    ["#/models/x/nonsense", { view: "model", name: "x", tab: "overview" }], ["#/history", { view: "history" }], ["#/history?range=1h&log=1", { view: "history" }], ["#/models/x/charts?from=1&to=2", { view: "model", name: "x", tab: "charts" }], ["#/what", { view: "models" }], ["#/models/%E0%A4%A", { view: "models" }],
  ])("%s", (hash, want) => expect(parse(hash)).toEqual(want));
  it("come back", () => expect(parse(href.model("a b/ü", "charts"))).toEqual({ view: "model", name: "a b/ü", tab: "charts" }));
});

describe("parcels", () => {
  const names = (paths: string[]) => parcels(paths.map(upload)).map((p) => [p.source, p.files.map((f) => f.path)]);
  it.each([
    ["one file", ["m.onnx"], [["m.onnx", ["m.onnx"]]]],
    ["external data go with the model", ["m.onnx", "m.onnx.data"], [["m.onnx", ["m.onnx", "m.onnx.data"]]]],
    ["two models are two", ["a.onnx", "b.ONNX"], [["a.onnx", ["a.onnx"]], ["b.ONNX", ["b.ONNX"]]]],
    ["folders are one each", ["d/1/m.onnx", "d/config.pbtxt", "e/1/x"], [["d", ["d/1/m.onnx", "d/config.pbtxt"]], ["e", ["e/1/x"]]]],
    ["a folder of models is one each", ["r/a/1/m.onnx", "r/a/config.pbtxt", "r/b/config.pbtxt"], [["a", ["a/1/m.onnx", "a/config.pbtxt"]], ["b", ["b/config.pbtxt"]]]],
    ["a model with several versions is one", ["m/1/m.onnx", "m/2/m.onnx"], [["m", ["m/1/m.onnx", "m/2/m.onnx"]]]],
    ["a folder with something else is one", ["r/a/1/m.onnx", "r/b/1/m.onnx", "r/notes/x.txt"], [["r", ["r/a/1/m.onnx", "r/b/1/m.onnx", "r/notes/x.txt"]]]],
    ["a zip alone", ["z.zip"], [["z.zip", ["z.zip"]]]],
    ["something else", ["model.pt"], [["model.pt", ["model.pt"]]]],
    ["nothing", [], []],
  ])("%s", (_, paths, want) => expect(names(paths)).toEqual(want));
});

describe("models events", () => {
  it("replaces, changes and removes, sorted by name", () => {
    const old = [model("b"), model("c")];
    expect(merge(old, { tMs: 0, full: false, models: [model("a"), { ...model("b"), instances: 9 }], removed: ["c"] }).map((m) => [m.name, m.instances])).toEqual([["a", 1], ["b", 9]]);
    expect(merge(old, { tMs: 0, full: true, models: [], removed: [] })).toEqual([]);
  });
});

describe("summary", () => {
  const recent = { qps: 4, requests: 240, failures: 2, p50Us: 100, p99Us: 900, spark: [1, 2], failureSpark: [0, 1] };
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
    const v = { ...version("1"), lastMinute: { ...recent, spark: [3, 3, 3], failureSpark: [1, 1, 1] } };
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
    const v = { ...version("1"), lastMinute: { ...recent, spark: [3, 3, 3], failureSpark: [1, 1, 1] } };
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
});

describe("the list of models", () => {
  const with_ = (name: string, requests: number, failures: number, memoryBytes: number): Model => ({
    ...model(name, [{ version: "1", state: "READY", condition: "", reason: "", sinceMs: 0, loadMs: 0, evicted: false, golden: 0, fetchedBytes: 0, fetchBytes: 0,
      lastMinute: { requests, failures, qps: 0, p50Us: null, p99Us: requests || null, spark: [requests], failureSpark: [] } }]), memoryBytes,
  });
  const list = [with_("a", 1, 5, 20), with_("b", 9, 0, 30), with_("c", 0, 0, 10)];
  it.each([["name", "abc"], ["qps", "bac"], ["p99", "bac"], ["failures", "abc"], ["memory", "bac"]] as const)("is sorted by %s", (by, want) => {
    expect(sorted(list, by, 0).map((m) => m.name).join("")).toBe(want);
    expect(list.map((m) => m.name).join("")).toBe("abc");
  });
});

it("counts the imports that were dropped together", async () => {
  const created = vi.spyOn(client, "createImport").mockRejectedValue(new Error("no"));
  importing.begin([{ path: "/a" }, { path: "/b" }]);
  expect(importing.place).toEqual({ at: 1, of: 2 });
  importing.begin([{ path: "/c" }]);
  expect(importing.place).toEqual({ at: 1, of: 3 });
  await importing.close();
  expect([importing.place, importing.source]).toEqual([{ at: 2, of: 3 }, "b"]);
  await importing.close();
  await importing.close();
  expect(importing.phase).toBe("idle");
  created.mockRestore();
});

describe("catalogues", () => {
  it("have the same parameters in each text", () => {
    const params = (s: string) => [...s.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();
    for (const key of Object.keys(en) as (keyof typeof en)[]) expect(params(zh[key]), key).toEqual(params(en[key]));
  });
  it("fill parameters in and leave unknown ones to be seen", () => expect(fill("{a} of {b}", { a: 1 })).toBe("1 of {b}"));
});

describe("palette", () => {
  const all = ["Load digits", "digits", "Server"].map((label) => ({ label, hint: "", run: () => undefined }));
  it("finds parts first, then letters in order", () => {
    expect(search(all, "dig").map((c) => c.label)).toEqual(["digits", "Load digits"]);
    expect(search(all, "svr").map((c) => c.label)).toEqual(["Server"]);
    expect(search(all, "zzz")).toEqual([]);
    expect(search(all, " ")).toHaveLength(3);
  });
  it("finds words in any order", () => {
    expect(search(all, "digits load").map((c) => c.label)).toEqual(["Load digits"]);
    expect(search(all, "digits  lo").map((c) => c.label)).toEqual(["Load digits"]);
    expect(search(all, "digits unload")).toEqual([]);
  });
});

it("draws lonely values as points", () => expect(isolated([1, null, 2, 3, null, undefined, 4])).toEqual([0, 6]));

describe("client", () => {
  const fetchMock = vi.fn<typeof fetch>();
  beforeEach(() => {
    fetchMock.mockReset();
    vi.stubGlobal("fetch", fetchMock);
  });
  it("marks requests that change something, and only those", async () => {
    fetchMock.mockImplementation(async () => new Response("{}"));
    await client.load("a/b");
    await client.models();
    const [first, second] = fetchMock.mock.calls;
    expect(first?.[0]).toBe("/api/models/a%2Fb/load");
    expect(first?.[1]?.headers).toMatchObject({ "X-Nereid": "1" });
    expect(second?.[1]?.headers).toEqual({});
  });
  it("keeps code, status and faults of an error", async () => {
    fetchMock.mockResolvedValue(new Response('{"error":"taken","code":"conflict"}', { status: 409 }));
    await expect(client.unload("x")).rejects.toMatchObject({ message: "taken", code: "conflict", status: 409, faults: [] });
  });
  it("H15 asks for a link or a token when the server does not let the browser in", async () => {
    fetchMock.mockResolvedValue(new Response('{"error":"no","code":"unauthenticated"}', { status: 401 }));
    await expect(client.models()).rejects.toMatchObject({ status: 401 });
    expect(entry.closed).toBe(true);
    fetchMock.mockReset();
    fetchMock.mockResolvedValueOnce(new Response(null, { status: 204 }));
    fetchMock.mockResolvedValueOnce(new Response('{"scopes":["infer","view"]}'));
    const start = vi.spyOn(live, "start").mockImplementation(() => undefined);
    await entry.open(" http://127.0.0.1:8003/#/open/SECRET ");
    expect(fetchMock.mock.calls[0]?.[1]?.body).toBe('{"secret":"SECRET"}');
    expect([entry.closed, start.mock.calls.length]).toEqual([false, 1]);
    await vi.waitFor(() => expect([rights.change, rights.infer]).toEqual([false, true]));
    expect(tabs.filter((x) => rights.tab(x))).toEqual(["overview", "try", "charts"]);
    rights.scopes = ["admin"];
    start.mockRestore();
  });
  it("shows the text of what is no JSON", async () => {
    fetchMock.mockResolvedValue(new Response("bad gateway", { status: 502 }));
    await expect(client.models()).rejects.toMatchObject({ message: "bad gateway", status: 502 });
  });
  it("says when no server answers", async () => {
    fetchMock.mockRejectedValue(new TypeError("refused"));
    await expect(client.models()).rejects.toMatchObject({ code: "offline", message: "no answer from the server (refused)" });
  });
  it("sends no empty filters", async () => {
    fetchMock.mockResolvedValue(new Response('{"events":[],"more":false}'));
    await client.events({ model: "", limit: 5 });
    expect(fetchMock.mock.calls[0]?.[0]).toBe("/api/history/events?limit=5");
  });
});

describe("router.leaveFor", () => {
  it("waits until the page is left", async () => {
    router.go("#/models/m");
    expect(await router.leaveFor(href.models)).toBe(true);
    expect(router.route).toEqual({ view: "models" });
    expect(await router.leaveFor(href.models)).toBe(true); // there already
  });
  it("reports that unsaved changes keep the page", async () => {
    await router.leaveFor("#/models/m");
    router.leave = () => false;
    expect(await router.leaveFor(href.models)).toBe(false);
    expect(location.hash).toBe("#/models/m");
    router.leave = null;
  });
});
