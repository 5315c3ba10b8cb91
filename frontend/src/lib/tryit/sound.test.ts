import { expect, test } from "vitest";
import type { Tensor } from "../api.gen";
import { envelope, looksLikeSound, samples, soundable, soundOf, soundShape } from "./sound";

const tensor = (name: string, dataType: string, dims: number[], shape = dims): Tensor => ({ name, dataType, dims, shape, dimNames: [], format: "FORMAT_NONE", optional: false, labels: false });

test("an input with one long or open dimension may be sound", () => {
  expect(soundable(tensor("x", "FP32", [-1]))).toBe(true);
  expect(soundable(tensor("x", "INT16", [1, 16000]))).toBe(true);
  expect(soundable(tensor("x", "FP16", [512], [-1, 512]))).toBe(true);
  expect(soundable(tensor("x", "FP32", [16]))).toBe(false);
  expect(soundable(tensor("x", "FP32", [80, -1]))).toBe(false);
  expect(soundable(tensor("x", "INT64", [-1]))).toBe(false);
  expect(looksLikeSound(tensor("audio_signal", "FP32", [-1]))).toBe(true);
  expect(looksLikeSound(tensor("x", "FP32", [-1]))).toBe(false);
});

test("an open dimension gets the samples, a fixed one cuts or pads them", () => {
  expect(soundShape(tensor("x", "FP32", [-1], [-1, -1]), 700)).toEqual([1, 700]);
  expect(soundShape(tensor("x", "FP32", [512], [-1, 512]), 700)).toEqual([1, 512]);
  const sound = Float32Array.of(0.5, -2, 1);
  expect([...samples(sound, 2, "FP32")]).toEqual([0.5, -2]);
  expect([...samples(sound, 4, "INT16")]).toEqual([16384, -32767, 32767, 0]);
});

test("a waveform has the extremes of each part", () => {
  expect(envelope([0, 0.5, -0.25, 0, 1, 0], 2)).toEqual([[-0.25, 0.5], [0, 1]]);
});

test("an output is sound if its name, type and shape say so", () => {
  const output = (name: string, dataType: string, shape: number[], value: number | null = 0.5) => ({ name, dataType, shape, data: new Array(shape.reduce((a, b) => a * b, 1)).fill(value) });
  expect(soundOf(output("waveform", "FP32", [1, 1, 1000]))?.length).toBe(1000);
  expect(soundOf(output("OUTPUT_AUDIO", "INT16", [2000], -32768))?.[7]).toBe(-1);
  expect(soundOf(output("audio", "FP32", [999]))).toBeNull();
  expect(soundOf(output("audio", "FP32", [2, 1000]))).toBeNull();
  expect(soundOf(output("audio", "FP64", [1000]))).toBeNull();
  expect(soundOf(output("audio", "FP32", [1000], NaN))).toBeNull();
  expect(soundOf(output("scores", "FP32", [1000]))).toBeNull();
});
