import { describe, expect, it } from "vitest";
import type { Model } from "../api.gen";
import type { InputValue } from "./request";
import { parseSaved, writeSaved } from "./saved";
import { TryForm } from "./form.svelte";

describe("saved requests", () => {
  it("come back as they were written, for each type", () => {
    const inputs: InputValue[] = [
      { name: "f", dataType: "FP32", shape: [1, 3], data: new Float32Array([0.1, 1 / 3, -1e30]) },
      { name: "i", dataType: "INT64", shape: [2], data: ["-9223372036854775808", 7] },
      { name: "u", dataType: "UINT64", shape: [1], data: ["18446744073709551615"] },
      { name: "h", dataType: "FP16", shape: [2], data: [0.5, -2] },
      { name: "s", dataType: "BYTES", shape: [2], data: ['a "b" 1234567890123456789', "über"] },
      { name: "b", dataType: "BOOL", shape: [1], data: [true] },
    ];
    const text = writeSaved(inputs, [{ name: "y", dataType: "FP32", classes: 3 }, { name: "z", dataType: "FP32", classes: 0 }], { parameters: { temperature: 0.5 }, sequence: { id: "42", start: true, end: false } });
    expect(text).toContain("-9223372036854775808,7]");
    expect(text).toContain("[0.1,0.33333334,-1e+30]");
    const back = parseSaved(text);
    const list = (v: InputValue) => Array.from(v.data, (e) => (v.dataType === "FP32" ? Math.fround(Number(e)) : e));
    expect(back.inputs.map(list)).toEqual(inputs.map(list));
    expect(back.classes).toEqual({ y: 3, z: 0 });
    expect(back.sequence).toEqual({ id: "42", start: true, end: false });
    expect(back.parameters).toEqual({ temperature: 0.5 });
  });

  it("may have base64 in place of data, but only text in BYTES", () => {
    const file = (datatype: string, shape: number[], b64: string) => JSON.stringify({ inputs: [{ name: "x", datatype, shape, b64 }] });
    expect(parseSaved(file("FP16", [2], "ADwAQA==")).inputs[0]?.data).toEqual([1, 2]);
    expect(parseSaved(file("BYTES", [1], "AwAAAGEAYg==")).inputs[0]?.data).toEqual(["a\0b"]);
    expect(() => parseSaved(file("BYTES", [1], "AQAAAP8="))).toThrow("bytes that are not text");
  });

  it("are refused with the reason", () => {
    for (const [text, reason] of [["[]", "list of inputs"], ['{"inputs":[{"name":"x"}]}', "list of inputs"], ['{"inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[1,2]}]}', "2 values given"]] as const) {
      expect(() => parseSaved(text)).toThrow(reason);
    }
  });

  it("change nothing of the form if they do not fit", () => {
    const tensor = { name: "x", dataType: "FP32", shape: [1, 2], dims: [2], dimNames: [], optional: false, format: "", labels: false };
    const form = new TryForm({ name: "m", inputs: [tensor], outputs: [], sequences: false, decoupled: false } as unknown as Model);
    const before = form.inputs[0]?.text;
    const one = { name: "x", dataType: "FP32", shape: [1, 2], data: [7, 8] };
    const wrong: [InputValue[], string][] = [[[{ ...one, name: "q" }], "no input q"], [[{ ...one, dataType: "INT32" }], "type INT32"], [[{ ...one, shape: [1, 3] }], "must be 2"], [[], "lacks the input x"]];
    for (const [inputs, reason] of wrong) {
      expect(() => form.take({ inputs, classes: {}, sequence: null, parameters: {} })).toThrow(reason);
      expect(form.inputs[0]?.text).toBe(before);
    }
    form.take({ inputs: [one], classes: {}, sequence: null, parameters: {} });
    expect(form.inputs[0]?.text).toBe("[7,8]");
  });
});
