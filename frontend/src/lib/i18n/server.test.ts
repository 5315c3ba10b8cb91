import { afterEach, describe, expect, it } from "vitest";
import { toApiError } from "../api";
import type { Fault } from "../api.gen";
import { faultText } from "../pbtxt/edits";
import { i18n } from "./index.svelte";
import { chinese, verb, type ServerText } from "./server";
import catalogue from "./server.zh.json";

describe("texts of the server in Chinese", () => {
  afterEach(() => i18n.set("en"));
  it.each<[ServerText, string, string]>([
    ["errors", 'model "a b" is not ready; load it first', '模型 "a b" 未就绪；请先加载'],
    ["errors", 'version "3" of model "m" is not ready', '模型 "m" 的版本 "3" 未就绪'],
    ["errors", 'limit="x" must be from 1 to 1000', 'limit="x" 必须在 1 到 1000 之间'],
    ["errors", "what the engine says (1.5)", "what the engine says (1.5)"],
    ["errors", "the file has no header", "the file has no header"],
    ["faults", 'input "x" has no dims', 'input "x" 没有 dims'],
    ["faults", "did you mean \"dims\"?", '您是指 "dims" 吗？'],
    ["help", "Data type of the elements.", "元素的数据类型。"],
    ["help", "constructor", "constructor"],
    ["events", "the process of m_0 ended: signal 9; it is not started again", "m_0 的进程已结束：signal 9；不再重新启动"],
    ["events", "33.3 % of the requests of the last minute failed; the limit is 5.0 %", "最近一分钟有 33.3 % 的请求失败，上限为 5.0 %"],
    ["events", "worse than version 1: requests take 2.0 ms (1.0 ms before, factor 2.00); the CPU is 30 % busy (20 % before)",
      "比版本 1 差：请求耗时 2.0 ms，此前为 1.0 ms（2.00 倍）；CPU 繁忙 30 %，此前为 20 %"],
  ])("%s: %s", (kind, text, want) => expect(chinese(kind, text)).toBe(want));
  it("has each argument of a format in its translation", () => {
    for (const texts of Object.values(catalogue)) {
      for (const [format, text] of Object.entries(texts)) {
        const places = [...text.matchAll(/\{(\d)\}/g)].map((m) => Number(m[1])).sort();
        expect(places, format).toEqual((format.match(new RegExp(verb, "g")) ?? []).map((_, i) => i + 1));
      }
    }
  });
  it("is shown for errors of the interface if the page is Chinese", async () => {
    const reply = () => new Response(JSON.stringify({ error: "the server is stopping", code: "unavailable" }), { status: 503 });
    expect((await toApiError(reply())).message).toBe("the server is stopping");
    i18n.set("zh");
    expect((await toApiError(reply())).message).toBe("服务器正在停止");
  });
  it("is shown for faults if the page is Chinese", async () => {
    const fault: Fault = { line: 1, col: 1, endLine: 1, endCol: 2, severity: "error", message: "the ensemble has no step", advice: "add step [ { model_name: … } ]", field: "", fixes: [] };
    expect(faultText(fault)).toBe("the ensemble has no step; add step [ { model_name: … } ]");
    expect(faultText({ ...fault, advice: "" })).toBe("the ensemble has no step");
    i18n.set("zh");
    await i18n.load();
    expect(faultText(fault)).toBe("集成模型没有步骤；添加 step [ { model_name: … } ]");
  });
});
