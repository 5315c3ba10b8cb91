import { describe, expect, it } from "vitest";
import { firstValues, goldenOf, inputsOf, lacks, shownValues } from "./captured";
import type { RequestContents } from "./api.gen";
import { encode, type Element } from "./tryit/dtype";

const kept = (dataType: string, data: Element[]) => ({ dataType, shape: [data.length], data: btoa(Array.from(encode(dataType, data), (b) => String.fromCharCode(b)).join("")) });

describe("the first values of kept contents", () => {
  it("are numbers, exact for 64 bits, and truth values", () => {
    expect(firstValues(kept("FP32", [0.5, -2])).values).toEqual([0.5, -2]);
    expect(firstValues(kept("FP16", [0.5, -2])).values).toEqual([0.5, -2]);
    expect(firstValues(kept("INT64", ["9007199254740993"])).values).toEqual(["9007199254740993"]);
    expect(firstValues(kept("BOOL", [true, false])).values).toEqual([true, false]);
    expect(firstValues(kept("FP32", []))).toEqual({ values: [], of: 0 });
  });
  it("are some of many", () => {
    const { values, of } = firstValues(kept("UINT8", new Array<number>(100_000).fill(7)));
    expect(values).toEqual(new Array(shownValues).fill(7));
    expect(of).toBe(100_000);
  });
  it("are texts, the long ones cut", () => {
    expect(firstValues(kept("BYTES", ["", "häuser", "x".repeat(300)])).values).toEqual(["", "häuser", `${"x".repeat(200)}…`]);
    expect(firstValues(kept("BYTES", ["y".repeat(100_000), "z"])).values).toEqual([`${"y".repeat(200)}…`]);
  });
});

describe("a kept request", () => {
  const contents = (inputs: object[], outputs: object[] = []) => ({ parameters: [], error: "", errorLeftOut: "", inputs: inputs.map((x) => ({ name: "X", leftOut: "", ...x })), outputs: outputs.map((x) => ({ name: "Y", leftOut: "", ...x })) }) as unknown as RequestContents;
  it("gives its inputs back, unless they are no text", () => {
    expect(inputsOf(contents([kept("INT32", [1, -2])]))).toEqual([{ name: "X", dataType: "INT32", shape: [2], data: [1, -2] }]);
    expect(inputsOf(contents([kept("BYTES", ["grüße"])]))[0]?.data).toEqual(["grüße"]);
    expect(() => inputsOf(contents([{ dataType: "BYTES", shape: [1], data: btoa("\x01\0\0\0\xff") }]))).toThrow(/not text/);
  });
  it("says which input it lacks", () => {
    expect(lacks(contents([kept("INT32", [1])]))).toBe("");
    expect(lacks(contents([{ ...kept("INT32", [1]), leftOut: "rule" }]))).toBe("X");
  });
  it("is a golden request with the outputs that are kept", () => {
    const y = kept("INT32", [3]);
    expect(JSON.parse(goldenOf(contents([kept("INT32", [1])], [y, { ...y, name: "Z", leftOut: "size" }])))).toEqual({
      data: [{ X: { b64: "AQAAAA==", shape: [1] } }], validation_data: [{ Y: { b64: "AwAAAA==", shape: [1] } }],
    });
  });
});
