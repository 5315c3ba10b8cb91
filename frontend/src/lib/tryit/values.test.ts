import { describe, expect, it } from "vitest";
import { concrete, parseShape, parseValues, random, shapeOf, volume, zeros } from "./values";

describe("parseShape", () => {
  it.each([["1, 3", [1, 3]], ["[1,3]", [1, 3]], [" 2 × 3 ", [2, 3]]])("%s", (s, want) => expect(parseShape(s, [-1, 3])).toEqual(want));
  it("reads a scalar's empty shape", () => expect(parseShape("", [])).toEqual([]));
  it.each([["1, 4", "dimension 1"], ["1", "has 1 dimensions, but needs 2"], ["a, 3", "is not a shape"], ["1.5, 3", "is not a shape"], ["-1, 3", "is not a shape"]])(
    "refuses %s", (s, want) => expect(() => parseShape(s, [-1, 3])).toThrow(want));
});

describe("parseValues", () => {
  it.each([
    ["nested", "[[1,2],[3,4]]", "FP32", 4, [1, 2, 3, 4]],
    ["one value fills", "7", "INT32", 3, [7, 7, 7]],
    ["all digits of a large integer", "[9007199254740993, 5]", "INT64", 2, ["9007199254740993", 5]],
    ["a small integer as text", '["12"]', "UINT64", 1, [12]],
    ["text", '["a", "b"]', "BYTES", 2, ["a", "b"]],
    ["digits inside text stay", '["12345678901234567890"]', "BYTES", 1, ["12345678901234567890"]],
    ["booleans", "[true, 0]", "BOOL", 2, [true, false]],
    ["nothing for an empty shape", "[]", "FP32", 0, []],
  ])("%s", (_, s, type, n, want) => expect(parseValues(s, type, n)).toEqual(want));

  it.each([
    ["no JSON", "[1,", "FP32", 1, "not JSON"], ["too few", "[1,2]", "FP32", 3, "2 values given, but the shape needs 3"],
    ["a fraction", "[1.5]", "INT32", 1, "not a whole number"], ["text for numbers", '["x"]', "FP32", 1, "not a number"],
    ["a number for text", "[1]", "BYTES", 1, "not a text"], ["null", "[null]", "FP32", 1, "not a number"], ["two for a boolean", "[2]", "BOOL", 1, "not a boolean"],
    ["ragged lists", "[[1,2],[3,4,5]]", "FP32", 5, "[1] has 3 elements, but [0] has 2"], ["a ragged list inside", "[[[1],[2]],[[3],[]]]", "FP32", 3, "[1][1] has 0 elements, but [0][0] has 1"],
    ["a list among values", "[1,[2]]", "FP32", 2, "[1] is a list"], ["a value among lists", "[[1],2]", "FP32", 2, "[1] is a value"],
  ])("refuses %s", (_, s, type, n, want) => expect(() => parseValues(s, type, n)).toThrow(want));
});

describe("shapeOf", () => {
  it.each<[string, string, string, number[], number[], number[] | null]>([
    ["the number of values", '["a", "b"]', "BYTES", [-1], [1], [2]],
    ["rows of a fixed width", "[1,2,3,4,5,6]", "FP32", [-1, 3], [1, 3], [2, 3]],
    ["a free dimension after a batch", '["a", "b"]', "BYTES", [-1, -1], [1, 1], [1, 2]],
    ["the batch as it is written", "[1,2,3,4]", "INT64", [-1, -1], [2, 1], [2, 2]],
    ["nested arrays", "[[1,2,3],[4,5,6]]", "FP32", [-1, -1], [1, 1], [2, 3]],
    ["nested arrays with a fixed dimension", "[[[1],[2]]]", "FP32", [-1, -1, 1], [1, 1, 1], [1, 2, 1]],
    ["large integers", "[9007199254740993]", "INT64", [-1], [3], [1]],
    ["no values", "[]", "FP32", [-1], [1], [0]],
    ["a bare value fills", "7", "FP32", [-1], [3], null],
    ["a rest", "[1,2,3,4]", "FP32", [-1, 3], [1, 3], null],
    ["rows of different lengths", "[[1,2,3],[4]]", "FP32", [-1, -1], [3, 1], null],
    ["three free dimensions", "[1,2]", "FP32", [-1, -1, -1], [1, 1, 1], null],
    ["nothing free", "[1,2]", "FP32", [3], [3], null],
    ["half typed", "[1,", "FP32", [-1], [1], null],
    ["an empty batch", "[1]", "FP32", [-1, -1], [0, 1], null],
  ])("%s", (_, text, type, want, written, got) => expect(shapeOf(text, type, want, written)).toEqual(got));
});

describe("made-up values", () => {
  it.each(["FP32", "INT64", "BYTES", "BOOL", "UINT8"])("%s can be parsed again", (type) => {
    for (const make of [zeros, random]) {
      const v = make(type, 3);
      expect(parseValues(JSON.stringify(v), type, 3)).toEqual(v);
    }
  });
  it("counts", () => {
    expect(volume([2, 3])).toBe(6);
    expect(volume([])).toBe(1);
    expect(concrete([-1, 3])).toEqual([1, 3]);
  });
});
