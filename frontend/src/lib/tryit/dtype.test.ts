import { describe, expect, it } from "vitest";
import { decode, elementText, encode, fromBfloat, fromHalf, toBfloat, toHalf } from "./dtype";

describe("half precision", () => {
  it.each([
    ["zero", 0, 0x0000], ["minus zero", -0, 0x8000], ["one", 1, 0x3c00], ["two", 2, 0x4000], ["largest", 65504, 0x7bff],
    ["overflow", 65520, 0x7c00], ["infinity", -Infinity, 0xfc00], ["smallest subnormal", 2 ** -24, 0x0001],
    ["below half of that", 2 ** -26, 0x0000], ["largest subnormal", 1023 * 2 ** -24, 0x03ff], ["smallest normal", 2 ** -14, 0x0400],
    ["ties to even, down", 1 + 2 ** -11, 0x3c00], ["ties to even, up", 1 + 3 * 2 ** -11, 0x3c02], ["carry into the exponent", 2 - 2 ** -12, 0x4000],
    ["a third", 1 / 3, 0x3555],
  ])("%s", (_, v, bits) => expect(toHalf(v)).toBe(bits));

  it("comes back exactly for every pattern that is no NaN", () => {
    const wrong = Array.from({ length: 0x10000 }, (_, h) => h).filter((h) => !Number.isNaN(fromHalf(h)) && toHalf(fromHalf(h)) !== h);
    expect(wrong).toEqual([]); // one expectation per value would be slow
    expect(fromHalf(toHalf(NaN))).toBeNaN();
  });
});

describe("bfloat16", () => {
  it.each([["one", 1, 0x3f80], ["ties to even, down", 1 + 2 ** -8, 0x3f80], ["ties to even, up", 1 + 3 * 2 ** -8, 0x3f82], ["infinity", Infinity, 0x7f80]])(
    "%s", (_, v, bits) => expect(toBfloat(v)).toBe(bits));
  it("comes back", () => {
    for (const v of [0, -1.5, 3.140625, 1e30]) expect(fromBfloat(toBfloat(v))).toBeCloseTo(v, v > 1e20 ? -28 : 6);
    expect(fromBfloat(toBfloat(NaN))).toBeNaN();
  });
});

describe("encode and decode", () => {
  it.each([
    ["FP32", [1.5, -2]], ["FP64", [0.1, 1e300]], ["INT8", [-128, 127]], ["UINT8", [0, 255]], ["INT16", [-32768]], ["UINT16", [65535]],
    ["INT32", [-2147483648]], ["UINT32", [4294967295]], ["INT64", [-1, "9007199254740993"]], ["UINT64", ["18446744073709551615"]],
    ["BOOL", [true, false]], ["BYTES", ["", "a\u0000b", "数"]], ["FP16", [0.5, -65504]], ["BF16", [1, -0.5]],
  ])("%s comes back", (type, values) => expect(decode(type, encode(type, values))).toEqual(values));

  it("is little-endian and puts a length before each BYTES element", () => {
    expect([...encode("INT32", [258])]).toEqual([2, 1, 0, 0]);
    expect([...encode("BYTES", ["hi"])]).toEqual([2, 0, 0, 0, 104, 105]);
  });

  it.each([
    ["FP32", [1, 2, 3]], ["BYTES", [1, 0]], ["BYTES", [5, 0, 0, 0, 1]],
  ])("%s of %j is refused", (type, bytes) => expect(() => decode(type, new Uint8Array(bytes))).toThrow());

  it("refuses types that it does not know", () => {
    expect(() => encode("FP8", [1])).toThrow("FP8");
    expect(() => decode("FP8", new Uint8Array(1))).toThrow("FP8");
  });

  it("reads data that begin at an odd offset", () => {
    const all = new Uint8Array([9, ...encode("FP32", [2.5])]);
    expect(decode("FP32", all.subarray(1))).toEqual([2.5]);
  });
});

it.each([
  [1234567890123456, "INT64", "1234567890123456"], ["-9223372036854775807", "INT64", "-9223372036854775807"], [-5, "INT8", "-5"],
  [0.1234567, "FP32", "0.123457"], [true, "BOOL", "true"], ["a\n", "BYTES", '"a\\n"'],
])("%s of type %s is shown as %s", (e, type, want) => expect(elementText(e, type)).toBe(want));
