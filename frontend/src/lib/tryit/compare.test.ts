import { afterEach, expect, it, vi } from "vitest";
import type { ComparedReply } from "../api.gen";
import { compare, comparedOutputs } from "./compare";

afterEach(() => vi.unstubAllGlobals());

it("sends the request to both versions, with binary outputs", async () => {
  const asked = vi.fn(async (_url: string, _init: RequestInit) => new Response('{"outputs":[]}'));
  vi.stubGlobal("fetch", asked);
  await compare("a b", "1", "2", [{ name: "x", dataType: "FP32", shape: [1], data: [1] }], {});
  const [url, init] = asked.mock.calls[0] ?? [];
  expect(url).toBe("/api/compare/a%20b/versions/1/with/2?repeat=5");
  expect(init?.headers).toMatchObject({ "Content-Type": "application/octet-stream", "X-Nereid": "1" });
  const text = new TextDecoder().decode(init?.body as Uint8Array);
  expect(text).toContain('"binary_data_output":true');
  expect(text).not.toContain('"outputs"');
});

it("reads the outputs of a reply, and none of a failure", () => {
  const json = '{"model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}]}';
  const reply: ComparedReply = { version: "1", status: 200, error: "", ms: 1, timing: "", body: btoa(json + "\u0007\u00ff"), jsonLength: String(json.length) };
  expect(comparedOutputs(reply)).toEqual([{ name: "y", dataType: "UINT8", shape: [2], data: [7, 255] }]);
  expect(comparedOutputs({ ...reply, status: 400, error: "refused" })).toEqual([]);
});
