import { describe, expect, it } from "vitest";
import { firstValues, shownValues } from "./captured";
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
