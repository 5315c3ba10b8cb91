import { describe, expect, it } from "vitest";
import { encode, encodeElement } from "./dtype";
import { build, cutEvents, parseClass, parseEvent, parseParameters, parseReply, parseTiming, perItem, sequenceParameters, topK } from "./request";

const text = (b: Uint8Array, n = b.length) => new TextDecoder().decode(b.subarray(0, n));
const bytes = (json: string, ...parts: Uint8Array[]): ArrayBuffer => {
  const head = new TextEncoder().encode(json);
  const out = new Uint8Array(head.length + parts.reduce((n, p) => n + p.length, 0));
  out.set(head);
  let at = head.length;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out.buffer;
};

describe("perItem", () => {
  const y = { name: "y", dataType: "FP32", shape: [2, 3], data: [1, 2, 3, 4, 5, 6] };
  const label = { name: "label", dataType: "BYTES", shape: [2], data: ["cat", "dog"] };

  it("has the outputs of each item of a batch", () => {
    expect(perItem([y, label], 2)).toEqual([
      [{ ...y, shape: [1, 3], data: [1, 2, 3] }, { ...label, shape: [1], data: ["cat"] }],
      [{ ...y, shape: [1, 3], data: [4, 5, 6] }, { ...label, shape: [1], data: ["dog"] }],
    ]);
  });
  it("has none where an output is of all items together", () => expect(perItem([y, { ...label, shape: [1], data: ["both"] }], 2)).toBeNull());
});

describe("parseParameters", () => {
  it("reads texts, numbers, true and false", () => {
    expect(parseParameters("")).toEqual({});
    expect(parseParameters('{"temperature": 0.5, "lang": "de", "stream": true}')).toEqual({ temperature: 0.5, lang: "de", stream: true });
  });
  it.each([["[1]", /no JSON object/], ["{", /no JSON object/], ["null", /no JSON object/], ['{"a": [1]}', /parameter a/], ['{"sequence_id": 1}', /another part/]])("refuses %s", (text, why) =>
    expect(() => parseParameters(text)).toThrow(why));
});

describe("build", () => {
  const x = { name: "x", dataType: "FP32", shape: [1, 2], data: [1, 2.5] };

  it("sends JSON", () => {
    const r = build([x], [{ name: "y", dataType: "FP32", classes: 0 }], false);
    expect(JSON.parse(text(r.body))).toEqual({ inputs: [{ name: "x", shape: [1, 2], datatype: "FP32", data: [1, 2.5] }], outputs: [{ name: "y" }] });
    expect(r.headers).toEqual({ "Content-Type": "application/json" });
    expect(r.binaryBytes).toBe(0);
  });

  it("sends parameters, beside those of the sequence", () => {
    const r = build([x], [], false, { parameters: { temperature: 0.5 }, sequence: { id: "7", start: true, end: false } });
    expect(JSON.parse(text(r.body))).toMatchObject({ parameters: { temperature: 0.5, sequence_id: 7, sequence_start: true, sequence_end: false } });
  });

  it("sends the bytes of a file as an element", () => {
    const r = build([{ name: "x", dataType: "BYTES", shape: [1], data: [""], raw: encodeElement(Uint8Array.of(255, 0)) }], [], false);
    expect(Array.from(r.body.subarray(-6))).toEqual([2, 0, 0, 0, 255, 0]);
    expect(r.json).toContain('"binary_data_size":6');
  });

  it("sends binary data after the JSON, with the header's length", () => {
    const r = build([x, { ...x, name: "z" }], [], true);
    const n = Number(r.headers["Inference-Header-Content-Length"]);
    expect(text(r.body, n)).toBe(r.json);
    expect(JSON.parse(r.json)).toMatchObject({ inputs: [{ parameters: { binary_data_size: 8 } }, { name: "z" }] });
    expect([...r.body.subarray(n, n + 8)]).toEqual([...encode("FP32", [1, 2.5])]);
    expect(r.body.length).toBe(n + 16);
  });

  it("sends FP16 and large integers as binary even when JSON is asked for", () => {
    const r = build([x, { name: "h", dataType: "FP16", shape: [1], data: [1] }, { name: "big", dataType: "INT64", shape: [1], data: ["9007199254740993"] }], [], false);
    const head = JSON.parse(r.json) as { inputs: { data?: unknown }[] };
    expect(head.inputs.map((i) => "data" in i)).toEqual([true, false, false]);
    expect(r.binaryBytes).toBe(10);
  });

  it("asks for classes, and for FP16 outputs as binary", () => {
    const r = build([], [{ name: "a", dataType: "FP32", classes: 3 }, { name: "b", dataType: "FP16", classes: 0 }], false);
    expect(JSON.parse(r.json)).toMatchObject({ outputs: [{ parameters: { classification: 3 } }, { parameters: { binary_data: true } }] });
  });
});

describe("parseReply", () => {
  it("reads JSON", () => {
    const r = parseReply(bytes('{"model_name":"m","model_version":"2","outputs":[{"name":"y","datatype":"FP32","shape":[1,2],"data":[[1,2]]}]}'), null);
    expect(r).toMatchObject({ model: "m", version: "2", outputs: [{ name: "y", data: [1, 2] }] });
  });
  it("keeps all digits of 64-bit integers", () => {
    const json = '{"model_name":"m","model_version":"1","outputs":[{"name":"i","datatype":"INT64","shape":[3],"data":[-9223372036854775807,5,1234567890123456]},{"name":"f","datatype":"FP64","shape":[3],"data":[0.1234567890123456789,9007199254740993,1e-30]},{"name":"s","datatype":"BYTES","shape":[1],"data":["\\"9007199254740993"]}]}';
    const r = parseReply(bytes(json), null);
    expect(r.outputs.map((o) => o.data)).toEqual([["-9223372036854775807", 5, 1234567890123456], [0.1234567890123456789, 9007199254740992, 1e-30], ['"9007199254740993']]);
    expect(r.outputs[0]?.shape).toEqual([3]);
  });
  it("reads binary outputs in their order", () => {
    const json = '{"model_name":"m","model_version":"1","outputs":[{"name":"a","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}},{"name":"b","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}}]}';
    const r = parseReply(bytes(json, encode("FP16", [0.5]), encode("BYTES", ["ok"])), String(json.length));
    expect(r.outputs.map((o) => o.data)).toEqual([[0.5], ["ok"]]);
  });
  it.each([
    ["data that end early", '{"model_name":"m","model_version":"1","outputs":[{"name":"a","datatype":"FP32","shape":[9],"parameters":{"binary_data_size":36}}]}', "ends inside"],
    ["a header length beyond the body", "{}", "body"],
  ])("refuses %s", (_, json, want) => expect(() => parseReply(bytes(json), want === "body" ? "99" : String(json.length))).toThrow(want));
});

describe("classes", () => {
  it.each([
    ["0.98:7:seven", { score: 0.98, index: 7, label: "seven" }], ["1e-05:3", { score: 1e-5, index: 3, label: "" }], ["-1.5:0:a:b", { score: -1.5, index: 0, label: "a:b" }],
  ])("%s", (s, want) => expect(parseClass(s)).toEqual(want));
  it("refuses another form", () => expect(() => parseClass("seven")).toThrow("seven"));
  it("finds the best, ties by index", () => {
    expect(topK([0.1, 5, 5, -1], 3, ["a", "b"]).map((c) => [c.index, c.label])).toEqual([[1, "b"], [2, ""], [0, "a"]]);
  });
});

it("reads Server-Timing", () => {
  expect(parseTiming('queue;dur=0.012, infer;desc="compute";dur=1.5, total')).toEqual({ phases: { queue: 0.012, infer: 1.5 }, steps: [] });
  expect(parseTiming(null)).toEqual({ phases: {}, steps: [] });
  expect(parseTiming('total;dur=3, step-1-a;desc="a, \\"b\\" ;dur=9:1";start=0.25;dur=1.25, step-2-c.d;dur=0.5, step-3-e;desc="e:2"')).toEqual({
    phases: { total: 3 },
    steps: [{ model: 'a, "b" ;dur=9:1', startMs: 0.25, ms: 1.25 }, { model: "c.d", startMs: 0, ms: 0.5 }],
  });
});

describe("sequences", () => {
  it.each([["7", 7], ["session-7", "session-7"], ["0", "0"], ["18446744073709551615", "18446744073709551615"]])("the ID %s goes as %s", (id, want) => {
    expect(sequenceParameters({ id, start: true, end: false })).toEqual({ sequence_id: want, sequence_start: true, sequence_end: false });
  });
  it("are parameters of the request", () => {
    const r = build([], [], false, { sequence: { id: "7", start: false, end: true } });
    expect(JSON.parse(r.json)).toMatchObject({ parameters: { sequence_id: 7, sequence_start: false, sequence_end: true } });
    expect(r.headers["Accept"]).toBeUndefined();
  });
});

describe("streams", () => {
  it("are asked for by the Accept header", () => {
    expect(build([], [], false, { stream: true }).headers["Accept"]).toBe("text/event-stream");
  });
  it("are cut where events end, whatever the chunks are", () => {
    expect(cutEvents('data: {"a":1}\n\ndata: {"b"')).toEqual({ events: ['{"a":1}'], rest: 'data: {"b"' });
    expect(cutEvents("data: x\r\ndata:y\r\n\r\n: still here\n\n")).toEqual({ events: ["x\ny"], rest: "" });
  });
  it("have replies and errors", () => {
    const ok = parseEvent('{"model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"BYTES","shape":[1],"data":["ä"]}]}', 3);
    expect(ok).toMatchObject({ ms: 3, error: "", reply: { model: "m", outputs: [{ name: "y", data: ["ä"] }] } });
    expect(parseEvent('{"error":"no"}', 4)).toEqual({ ms: 4, reply: null, error: "no" });
  });
});
