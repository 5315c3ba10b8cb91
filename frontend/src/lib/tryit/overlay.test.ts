import { describe, expect, it } from "vitest";
import type { Prep } from "./image";
import { area, overlay, pictureOf, type Seen } from "./overlay";
import type { OutputValue } from "./request";

const out = (name: string, shape: number[], data: (number | string)[], dataType = typeof data[0] === "string" ? "BYTES" : "FP32"): OutputValue => ({ name, shape, data, dataType });
const file: Seen = { width: 200, height: 100, prep: null };
const prep: Prep = { width: 100, height: 100, layout: "NCHW", channels: 3, scale: "unit", bgr: false, invert: false, fit: "stretch" };

describe("boxes", () => {
  it("of four corners have the texts of another output", () => {
    const got = overlay([out("recognized_text", [2], ["moon", "sun"]), out("boxes", [2, 4, 2], [1, 2, 11, 2, 11, 8, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0])], {}, file);
    expect(got?.names).toEqual(["boxes"]);
    expect(got?.boxes).toEqual([{ corners: [[1, 2], [11, 2], [11, 8], [1, 8]], label: "moon", score: null }]); // zeros are padding
  });
  it("of two corners have scores and class names, and as many as the model says", () => {
    const outputs = [out("num_detections", [1], [1]), out("boxes", [1, 2, 4], [10, 20, 30, 40, 50, 60, 70, 80]), out("scores", [1, 2], [0.9, 0.1]), out("labels", [1, 2], [1, 0])];
    expect(overlay(outputs, { labels: ["cat", "dog"] }, file)?.boxes).toEqual([{ corners: [[10, 20], [30, 20], [30, 40], [10, 40]], label: "dog", score: 0.9 }]);
  });
  it("beside a score and a class need no name", () => {
    const yolo = out("output0", [1, 2, 6], [10, 20, 30, 40, 0.5, 2, 0, 0, 0, 0, 0, 0]);
    expect(overlay([yolo], { output0: ["a", "b", "c"] }, file)?.boxes).toEqual([{ corners: [[10, 20], [30, 20], [30, 40], [10, 40]], label: "c", score: 0.5 }]);
    expect(overlay([out("output0", [1, 2, 6], [10, 20, 30, 40, 7, 2, 1, 2, 3, 4, 5, 6])], {}, file)).toBeNull();
  });
  it("are drawn where the model saw them", () => {
    const half = [out("boxes", [1, 4], [0, 0, 50, 50])];
    expect(overlay(half, {}, { ...file, prep })?.boxes[0]?.corners[2]).toEqual([100, 50]); // stretched
    expect(overlay(half, {}, { ...file, prep: { ...prep, fit: "contain" } })?.boxes[0]?.corners[2]).toEqual([100, 50]);
    expect(overlay(half, {}, { ...file, prep: { ...prep, fit: "contain" } })?.boxes[0]?.corners[0]).toEqual([0, -50]); // the border above
    expect(area({ ...file, prep: { ...prep, fit: "cover" } })).toEqual({ x: 50, y: 0, w: 100, h: 100 });
    expect(overlay([out("boxes", [1, 4], [0, 0, 0.5, 0.5])], {}, file)?.boxes[0]?.corners[2]).toEqual([100, 50]); // shares
    expect(overlay([out("detection_boxes", [1, 1, 4], [0.1, 0.2, 0.5, 0.6])], {}, file)?.boxes[0]?.corners[0]).toEqual([40, 10]); // top first
  });
  it("are not seen in scores, embeddings or numbers that are not finite", () => {
    expect(overlay([out("probabilities", [1, 10], Array(10).fill(0.1))], {}, file)).toBeNull();
    expect(overlay([out("output", [1, 4], [1, 2, 3, 4])], {}, file)).toBeNull();
    expect(overlay([out("boxes", [1, 4], [NaN, 2, 3, 4])], {}, file)).toBeNull();
  });
});

describe("maps", () => {
  const map = (shape: number[], f: (i: number) => number) => out("map", shape, Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => f(i)));
  it("of values are scaled to 0..1", () => {
    const heat = overlay([map([1, 1, 8, 10], (i) => i)], {}, file)?.heat;
    expect([heat?.width, heat?.height, heat?.classes, heat?.values[0], heat?.values[79]]).toEqual([10, 8, false, 0, 1]);
    expect(overlay([map([1, 4, 10], () => 1)], {}, file)).toBeNull(); // too few rows
  });
  it("of classes take the best of each pixel, in both layouts", () => {
    const nchw = map([1, 2, 8, 8], (i) => (i < 64 ? 0.5 : i - 64 === 3 ? 1 : 0));
    const nhwc = map([1, 8, 8, 2], (i) => (i % 2 === 0 ? 0.5 : (i - 1) / 2 === 3 ? 1 : 0));
    for (const o of [nchw, nhwc]) {
      const heat = overlay([o], {}, file)?.heat;
      expect(heat?.classes).toBe(true);
      expect(Array.from(heat?.values ?? []).flatMap((c, i) => (c === 1 ? [i] : []))).toEqual([3]);
    }
    expect(overlay([map([1, 8, 8, 5], () => 1), out("scores", [2], [1, 2])], {}, file)).toBeNull(); // one of several: its name must say so
  });
});

it("an output of three channels is a picture, in the range of its values", () => {
  const flat = (v: number, dataType = "FP32") => out("output_0", [1, 3, 8, 8], Array<number>(192).fill(v), dataType);
  expect([0, 1, 2, 3].map((i) => pictureOf(flat(0.5))?.rgba[i])).toEqual([128, 128, 128, 255]);
  expect(pictureOf(flat(-1))?.rgba[0]).toBe(0);
  expect(pictureOf(flat(300))?.rgba[0]).toBe(255);
  expect(pictureOf(flat(1, "UINT8"))?.rgba[0]).toBe(1);
  const red = out("image", [8, 9, 3], Array.from({ length: 216 }, (_, i) => (i % 3 === 0 ? 255 : 0)));
  expect([pictureOf(red)?.width, pictureOf(red)?.height, ...(pictureOf(red)?.rgba.slice(0, 3) ?? [])]).toEqual([9, 8, 255, 0, 0]);
  expect(pictureOf(out("mask", [1, 3, 8, 8], Array<number>(192).fill(1)))).toBeNull();
  expect(overlay([flat(0.5)], {}, file)).toBeNull();
});
