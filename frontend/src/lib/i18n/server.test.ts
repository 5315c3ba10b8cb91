import { afterEach, describe, expect, it } from "vitest";
import { toApiError } from "../api";
import type { Fault } from "../api.gen";
import { faultText } from "../pbtxt/edits";
import { i18n } from "./index.svelte";
import { chinese, verb, type ServerText } from "./server";
import cases from "./server.cases.json";
import catalogue from "./server.zh.json";

describe("texts of the server in Chinese", () => {
  afterEach(() => i18n.set("en"));
  it.each(cases as [ServerText, string, string][])("%s: %s", (kind, text, want) => expect(chinese(kind, text)).toBe(want));
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
