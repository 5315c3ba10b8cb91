import { describe, expect, it } from "vitest";
import type { Tensor } from "../api.gen";
import { elements, fileShape, guess, looksLikeFile, place, type Prep, prepare, preview, requestShape, stats } from "./image";

const tensor = (dataType: string, shape: number[], dims: number[], format = "FORMAT_NONE"): Tensor => ({
  name: "x", dataType, shape, dims, dimNames: [], format, optional: false, labels: false,
});
const base: Prep = { width: 2, height: 1, layout: "NCHW", channels: 3, scale: "none", bgr: false, invert: false, fit: "stretch" };

describe("guess", () => {
  it.each([
    ["ImageNet NCHW", tensor("FP32", [-1, 3, 224, 224], [3, 224, 224]), { layout: "NCHW", channels: 3, width: 224, height: 224, scale: "imagenet" }],
    ["NHWC", tensor("FP32", [-1, 480, 640, 3], [480, 640, 3]), { layout: "NHWC", channels: 3, width: 640, height: 480, scale: "imagenet" }],
    ["bytes stay 0..255", tensor("UINT8", [-1, -1, -1, 3], [-1, -1, 3]), { layout: "NHWC", width: 224, height: 224, scale: "none" }],
    ["grey digits", tensor("FP32", [-1, 1, 28, 28], [1, 28, 28]), { layout: "NCHW", channels: 1, width: 28, height: 28, scale: "unit" }],
    ["flat digits", tensor("FP32", [-1, 784], [784]), { layout: "flat", channels: 1, width: 28, height: 28, scale: "unit" }],
    ["flat colours", tensor("FP32", [-1, 3072], [3072]), { layout: "flat", channels: 3, width: 32, height: 32 }],
    ["two dimensions", tensor("FP32", [-1, 28, 20], [28, 20]), { layout: "flat", channels: 1, width: 20, height: 28 }],
    ["a model that does not batch", tensor("FP32", [1, 3, 32, 32], [1, 3, 32, 32]), { layout: "NCHW", channels: 3, width: 32, height: 32, scale: "unit" }],
    ["the format decides", tensor("FP32", [-1, 3, 64, 3], [3, 64, 3], "FORMAT_NHWC"), { layout: "NHWC", height: 3, width: 64 }],
  ])("%s", (_, t, want) => expect(guess(t)).toMatchObject(want));

  it.each([
    ["a short vector", tensor("FP32", [-1, 16], [16])], ["no square", tensor("FP32", [-1, 1000], [1000])],
    ["text", tensor("BYTES", [-1, 3, 224, 224], [3, 224, 224])], ["five channels", tensor("FP32", [-1, 5, 8, 8], [5, 8, 8])],
  ])("%s is no image", (_, t) => expect(guess(t)).toBeNull());
});

describe("prepare", () => {
  const red = [255, 0, 0, 255];
  const other = [10, 20, 30, 255];
  const rgba = [...red, ...other];

  it("puts planes one after another for NCHW", () => expect([...prepare(rgba, base)]).toEqual([255, 10, 0, 20, 0, 30]));
  it("keeps pixels together for NHWC", () => expect([...prepare(rgba, { ...base, layout: "NHWC" })]).toEqual([255, 0, 0, 10, 20, 30]));
  it("puts blue first on demand", () => expect([...prepare(rgba, { ...base, layout: "NHWC", bgr: true })]).toEqual([0, 0, 255, 30, 20, 10]));
  it("makes grey as PIL does", () => expect([...prepare(rgba, { ...base, channels: 1 })]).toEqual([76, 18]));
  it("inverts before scaling", () => expect([...prepare(rgba, { ...base, channels: 1, invert: true, scale: "unit" })]).toEqual([Math.fround(179 / 255), Math.fround(237 / 255)]));
  it("scales to -1..1", () => expect([...prepare([0, 127.5, 255, 255], { ...base, width: 1, scale: "signed" })]).toEqual([-1, 0, 1]));
  it("normalises with the constants of each colour, also with blue first", () => {
    const white = [255, 255, 255, 255];
    const rgb = prepare(white, { ...base, width: 1, scale: "imagenet" });
    const bgr = prepare(white, { ...base, width: 1, scale: "imagenet", bgr: true });
    [2.2489, 2.4286, 2.64].forEach((v, i) => expect(rgb[i]).toBeCloseTo(v, 3));
    expect([...bgr]).toEqual([...rgb].reverse());
  });
  it("refuses another number of pixels", () => expect(() => prepare(red, base)).toThrow("1 pixels given, 2×1 wanted"));
  it("gives as many values as it says", () => expect(prepare(rgba, base)).toHaveLength(elements(base)));
});

describe("preview", () => {
  it.each(["NCHW", "NHWC"] as const)("shows the picture again from %s", (layout) => {
    const p = { ...base, layout, scale: "imagenet" as const, bgr: true };
    const got = preview(prepare([255, 0, 0, 255, 0, 0, 255, 255], p), p);
    expect(got[0]).toBeGreaterThan(200);
    expect(got[2]).toBeLessThan(60);
    expect(got[6]).toBeGreaterThan(200);
    expect(got[7]).toBe(255);
  });
  it("is black for a constant picture, not NaN", () => expect([...preview(new Float32Array(2), { ...base, channels: 1 })]).toEqual([0, 0, 0, 255, 0, 0, 0, 255]));
});

describe("requestShape", () => {
  it.each([
    [tensor("FP32", [-1, 3, -1, -1], [3, -1, -1]), { ...base, width: 8, height: 6 }, [1, 3, 6, 8]],
    [tensor("FP32", [-1, -1, -1, 3], [-1, -1, 3]), { ...base, layout: "NHWC" as const, width: 8, height: 6 }, [1, 6, 8, 3]],
    [tensor("FP32", [-1, 784], [784]), { ...base, layout: "flat" as const, width: 28, height: 28, channels: 1 as const }, [1, 784]],
    [tensor("FP32", [3, 4, 5], [3, 4, 5]), { ...base, width: 5, height: 4 }, [3, 4, 5]],
  ])("of %j", (t, p, want) => expect(requestShape(t, p)).toEqual(want));
  it("counts the images of a batch where the first dimension does", () => {
    const flat = { ...base, layout: "flat" as const, width: 28, height: 28, channels: 1 as const };
    expect(requestShape(tensor("FP32", [-1, 3, -1, -1], [3, -1, -1]), { ...base, width: 8, height: 6 }, 4)).toEqual([4, 3, 6, 8]);
    expect(requestShape(tensor("FP32", [-1, 784], [784]), flat, 4)).toEqual([4, 784]);
    expect(requestShape(tensor("FP32", [-1], [-1]), flat, 4)).toEqual([1]);
    expect(requestShape(tensor("FP32", [3, -1, -1], [3, -1, -1]), { ...base, width: 8, height: 6 }, 4)).toEqual([3, 6, 8]);
    expect(requestShape(tensor("FP32", [1, 3, -1, -1], [1, 3, -1, -1]), { ...base, width: 8, height: 6 }, 4)).toEqual([1, 3, 6, 8]);
  });
});

describe("fileShape", () => {
  it.each([
    [tensor("UINT8", [1, -1], [1, -1]), [1, 5]],
    [tensor("UINT8", [-1, -1], [-1]), [1, 5]],
    [tensor("UINT8", [-1], [-1]), [5]],
    [tensor("BYTES", [-1, 1], [1]), [1, 1]],
    [tensor("UINT8", [28, -1], [28, -1]), null],
    [tensor("UINT8", [1], [1]), null],
    [tensor("FP32", [-1], [-1]), null],
    [tensor("BYTES", [2], [2]), null],
  ])("of %j", (t, want) => expect(fileShape(t, 5)).toEqual(want));
  it("is likely for bytes of any length, and for texts that are called pictures", () => {
    expect(looksLikeFile(tensor("UINT8", [-1], [-1]))).toBe(true);
    expect(looksLikeFile({ ...tensor("BYTES", [1], [1]), name: "IMAGE" })).toBe(true);
    expect(looksLikeFile({ ...tensor("BYTES", [1], [1]), name: "text" })).toBe(false);
  });
});

describe("place and stats", () => {
  it("keeps the whole picture, or fills the target", () => {
    expect(place(200, 100, { ...base, width: 100, height: 100, fit: "contain" })).toEqual({ x: 0, y: 25, w: 100, h: 50 });
    expect(place(200, 100, { ...base, width: 100, height: 100, fit: "cover" })).toEqual({ x: -50, y: 0, w: 200, h: 100 });
    expect(place(200, 100, { ...base, width: 100, height: 100 })).toEqual({ x: 0, y: 0, w: 100, h: 100 });
  });
  it("sums up", () => {
    expect(stats([1, 2, 6])).toEqual({ min: 1, max: 6, mean: 3 });
    expect(stats([])).toEqual({ min: 0, max: 0, mean: 0 });
  });
});
