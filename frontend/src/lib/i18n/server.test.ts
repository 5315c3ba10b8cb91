import { afterEach, describe, expect, it } from "vitest";
import { toApiError } from "../api";
import { i18n } from "./index.svelte";
import { chinese } from "./server";
import catalogue from "./server.zh.json";

describe("texts of the server in Chinese", () => {
  afterEach(() => i18n.set("en"));
  it.each([
    ['model "a b" is not ready; load it first', '模型 "a b" 未就绪;请先加载'],
    ['version "3" of model "m" is not ready', '模型 "m" 的版本 "3" 未就绪'],
    ["limit=\"x\" must be from 1 to 1000", 'limit="x" 必须在 1 到 1000 之间'],
    ["what the engine says (1.5)", "what the engine says (1.5)"],
  ])("%s", (text, want) => expect(chinese(text)).toBe(want));
  it("has each argument of a format in its translation", () => {
    for (const [format, text] of Object.entries(catalogue)) {
      const places = [...text.matchAll(/\{(\d)\}/g)].map((m) => Number(m[1])).sort();
      expect(places, format).toEqual((format.match(/%[a-z]/g) ?? []).map((_, i) => i + 1));
    }
  });
  it("is shown for errors of the interface if the page is Chinese", async () => {
    const reply = () => new Response(JSON.stringify({ error: "the server is stopping", code: "unavailable" }), { status: 503 });
    expect((await toApiError(reply())).message).toBe("the server is stopping");
    i18n.set("zh");
    expect((await toApiError(reply())).message).toBe("服务器正在停止");
  });
});
