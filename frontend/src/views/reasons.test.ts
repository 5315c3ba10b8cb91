// Reasons of failures on a Chinese page.
import { cleanup, render, screen } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import Differences from "../components/Differences.svelte";
import type { ModelRuntime, TuningHead } from "../lib/api.gen";
import { i18n } from "../lib/i18n/index.svelte";
import { model } from "../lib/testmodel";
import { decode } from "../lib/tryit/dtype";
import { parseReply } from "../lib/tryit/request";
import LoadTest from "./model/LoadTest.svelte";
import RuntimePanel from "./model/RuntimePanel.svelte";
import TunePast from "./model/tune/TunePast.svelte";

const reason = 'batch size 9: model "m" takes 4 rows at most (max_batch_size)';
const chinese = '批大小 9：模型 "m" 最多接受 4 行（max_batch_size）';

beforeEach(async () => {
  i18n.set("zh");
  await i18n.load();
});
afterEach(() => {
  cleanup();
  i18n.set("en");
  vi.unstubAllGlobals();
});

it("of a load test", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(Response.json({ state: "failed", reason, points: [], now: null, levels: [] })));
  render(LoadTest, { model: model("m") });
  expect((await screen.findByRole("alert")).textContent).toBe(chinese);
});

it("of a tuning, and the number of its measurements", () => {
  const head = { id: 1, state: "failed", reason, measured: 1, startedMs: 0, applied: 0, request: { search: "quick", objective: "", latencyBudgetMs: 0, with: [], minThroughput: 0, maxMemoryMb: 0, maxGpuMemoryMb: 0 } } as unknown as TuningHead;
  render(TunePast, { list: [head], shown: 0, onshow: () => undefined });
  expect(screen.getByText(chinese)).toBeDefined();
  i18n.set("en");
  cleanup();
  render(TunePast, { list: [head], shown: 0, onshow: () => undefined });
  expect(screen.getByText(/· 1 measurement$/)).toBeDefined();
});

it("of an answer that cannot be read", () => {
  expect(() => decode("FP32", new Uint8Array(3))).toThrow("3 字节不是 FP32 元素的整数倍");
  expect(() => parseReply(new ArrayBuffer(2), "9")).toThrow("为 9，其正文为 2 字节");
});

it("of a process that ended, beside the words of the program", () => {
  const process = { pid: 0, sinceMs: 0, memoryBytes: 0, ends: 1, quarantined: true, before: [], output: [],
    error: "model instance 'm_0' is being started again: ModuleNotFoundError: No module named 'x'" };
  const instance = { name: "m_0", version: "1", kind: "KIND_CPU", gpu: 0, affinity: "", passive: false, hostPolicy: "", process };
  render(RuntimePanel, { runtime: { instances: [instance] } as unknown as ModelRuntime, versions: 1 });
  expect(screen.getByText("模型实例 'm_0' 正在重新启动：ModuleNotFoundError: No module named 'x'")).toBeDefined();
});

it("of outputs that cannot be compared", () => {
  const d = { name: "Y", dataType: "FP32", reason: "output 'Y' is FP32 [1,3], want FP32 [1,4]", elements: 0, differing: 0, special: 0, maxAbs: 0, at: 0, maxRel: 0, topK: [] };
  render(Differences, { list: [d] });
  expect(screen.getByText("输出 'Y' 为 FP32 [1,3]，应为 FP32 [1,4]")).toBeDefined();
});
