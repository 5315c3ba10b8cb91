// What an answer says about a picture: boxes with texts and scores, a map of values, or another picture. The rules go by
// shape and name (docs/gui.md), because the protocol does not say what an output means.
import type { Element } from "./dtype";
import { place, stats, type Prep } from "./image";
import type { OutputValue } from "./request";

export type Point = readonly [x: number, y: number];

export interface Box {
  /** The corners in pixels of the picture. */
  corners: Point[];
  label: string;
  score: number | null;
}

/** Values of 0..1, rows from the top, that cover what the model saw. classes: they are numbers of classes instead. */
export interface Heat {
  width: number;
  height: number;
  values: Float32Array;
  classes: boolean;
}

export interface Overlay {
  /** The outputs that are drawn. */
  names: string[];
  boxes: Box[];
  heat: Heat | null;
}

/** Where the model saw the picture: its size, and how it became the tensor (null: the model decoded its file). */
export interface Seen {
  width: number;
  height: number;
  prep: Prep | null;
}

const smallest = 8; // a map with fewer rows or columns is a matrix
const maxBoxes = 1000;
const maxClasses = 256;

const isNumeric = (o: OutputValue) => o.dataType !== "BYTES" && o.dataType !== "BOOL" && !/64$/.test(o.dataType);
const squeezed = (shape: readonly number[]) => shape.filter((d) => d !== 1);
const numbers = (o: OutputValue) => o.data.map(Number);

/** Reads the outputs of an answer. labels: the class names of each output. null: nothing can be drawn over the picture. */
export function overlay(outputs: OutputValue[], labels: Record<string, string[]>, seen: Seen): Overlay | null {
  const found = findBoxes(outputs);
  const boxes = found ? describe(found, outputs, labels, seen) : [];
  const map = outputs.find((o) => o !== found?.output && heatOf(o, outputs.length === 1) !== null);
  if (boxes.length === 0 && !map) return null;
  const names = [...(found && boxes.length > 0 ? [found.output.name] : []), ...(map ? [map.name] : [])];
  return { names, boxes, heat: map ? heatOf(map, outputs.length === 1) : null };
}

interface Found {
  output: OutputValue;
  /** The numbers of each box: 4, or 8 for four corners. */
  coordinates: number[][];
  /** Scores and classes that are beside the coordinates. */
  scores: number[] | null;
  classes: number[] | null;
}

function findBoxes(outputs: OutputValue[]): Found | null {
  for (const output of outputs.filter(isNumeric)) {
    const { shape, name } = output;
    const last = shape.at(-1) ?? 0;
    const called = /box|bbox|rect|roi/i.test(name);
    const corners = shape.length >= 2 && last === 2 && shape.at(-2) === 4;
    const n = corners || last === 8 ? 8 : last;
    if (!corners && !(shape.length >= 2 && [4, 5, 6, 8].includes(last))) continue;
    const data = numbers(output);
    const rows = Array.from({ length: Math.min(data.length / n, maxBoxes) }, (_, i) => data.slice(i * n, i * n + n));
    if (corners || (called && (n === 4 || n === 8))) return { output, coordinates: rows, scores: null, classes: null };
    if (n === 5 && called) return { output, coordinates: rows, scores: rows.map((r) => r[4] ?? 0), classes: null };
    const column = (i: number) => rows.map((r) => r[i] ?? 0);
    const detections = n === 6 && rows.length > 0 && column(4).every((s) => s >= 0 && s <= 1) && column(5).every((c) => c >= 0 && Number.isInteger(c));
    if (detections) return { output, coordinates: rows, scores: column(4), classes: column(5) };
  }
  return null;
}

/** The boxes with what other outputs say about each. */
function describe(f: Found, outputs: OutputValue[], labels: Record<string, string[]>, seen: Seen): Box[] {
  const said = outputs.find((o) => /num|count|valid/i.test(o.name) && o.data.length === 1 && isNumeric(o));
  const n = Math.min(f.coordinates.length, said ? Number(said.data[0]) : Infinity);
  const beside = (like: RegExp) => outputs.find((o) => o !== f.output && isNumeric(o) && like.test(o.name) && o.data.length === f.coordinates.length);
  const texts = outputs.find((o) => o.dataType === "BYTES" && o.data.length === f.coordinates.length);
  const scores = f.scores ?? beside(/score|conf|prob/i)?.data.map(Number) ?? null;
  const classOutput = beside(/class|label|cls|categ/i);
  const classes: ArrayLike<Element> | null = f.classes ?? classOutput?.data ?? null;
  const classNames = labels[classOutput?.name ?? f.output.name] ?? [];
  const toPicture = mapping(f, seen);
  const label = (i: number) => {
    if (texts) return String(texts.data[i]);
    const c = classes?.[i];
    return c === undefined ? "" : (classNames[Number(c)] ?? String(c));
  };
  return f.coordinates.slice(0, n).flatMap((c, i) => {
    if (c.every((v) => v === 0) || !c.every(Number.isFinite)) return []; // padding
    return [{ corners: cornersOf(c, f.output.name).map(toPicture), label: label(i), score: scores?.[i] ?? null }];
  });
}

/** left, top, right, bottom; TensorFlow's detection_boxes has top, left, bottom, right. */
function cornersOf(c: number[], name: string): Point[] {
  const at = (i: number) => c[i] ?? 0;
  if (c.length === 8) return [[at(0), at(1)], [at(2), at(3)], [at(4), at(5)], [at(6), at(7)]];
  const [l, t, r, b] = /detection_boxes/.test(name) ? [at(1), at(0), at(3), at(2)] : [at(0), at(1), at(2), at(3)];
  return [[l, t], [r, t], [r, b], [l, b]];
}

/** From the numbers of a box to pixels of the picture. Small numbers are shares of what the model saw. */
function mapping(f: Found, seen: Seen): (p: Point) => Point {
  const size = f.coordinates[0]?.length === 8 ? 8 : 4;
  const relative = f.coordinates.every((c) => c.slice(0, size).every((v) => Math.abs(v) <= 1.5));
  const [w, h] = seen.prep ? [seen.prep.width, seen.prep.height] : [seen.width, seen.height];
  const at = area(seen);
  return ([x, y]) => {
    const [u, v] = relative ? [x, y] : [x / w, y / h];
    return [at.x + u * at.w, at.y + v * at.h];
  };
}

/** What the model saw, in pixels of the picture: more than the picture where it was fitted with a border. */
export function area(seen: Seen): { x: number; y: number; w: number; h: number } {
  const { prep: p, width, height } = seen;
  if (!p) return { x: 0, y: 0, w: width, h: height };
  const at = place(width, height, p);
  const k = { x: width / at.w, y: height / at.h };
  return { x: 0 - at.x * k.x, y: 0 - at.y * k.y, w: p.width * k.x, h: p.height * k.y };
}

/** A map of values, or of classes where a dimension has the scores of each. null: the output is none. */
function heatOf(o: OutputValue, only: boolean): Heat | null {
  if (!isNumeric(o)) return null;
  const d = squeezed(o.shape);
  const [a = 0, b = 0, c = 0] = d;
  if (d.length === 2 && a >= smallest && b >= smallest) return { width: b, height: a, classes: false, values: unit(numbers(o)) };
  const called = /mask|seg|logit/i.test(o.name) || (only && !pictureShape(o));
  if (d.length !== 3 || !called) return null;
  if (a <= maxClasses && b >= smallest && c >= smallest && a < b) return { width: c, height: b, classes: true, values: best(numbers(o), a, b * c, 1, b * c) };
  if (c <= maxClasses && a >= smallest && b >= smallest) return { width: b, height: a, classes: true, values: best(numbers(o), c, a * b, c, 1) };
  return null;
}

function unit(v: number[]): Float32Array {
  const s = stats(v);
  if (s.min >= 0 && s.max <= 1) return Float32Array.from(v);
  const k = s.max > s.min ? 1 / (s.max - s.min) : 0;
  return Float32Array.from(v, (x) => (x - s.min) * k);
}

/** The class with the best score of each pixel. */
function best(v: number[], classes: number, pixels: number, pixelStep: number, classStep: number): Float32Array {
  return Float32Array.from({ length: pixels }, (_, i) => {
    let top = 0;
    for (let c = 1; c < classes; c++) if ((v[i * pixelStep + c * classStep] ?? 0) > (v[i * pixelStep + top * classStep] ?? 0)) top = c;
    return top;
  });
}

function pictureShape(o: OutputValue): "NCHW" | "NHWC" | null {
  const d = squeezed(o.shape);
  const [a = 0, b = 0, c = 0] = d;
  if (d.length !== 3 || /mask|seg|logit/i.test(o.name)) return null;
  if (c === 3 && a >= smallest && b >= smallest) return "NHWC";
  return a === 3 && b >= smallest && c >= smallest ? "NCHW" : null;
}

/** An output that is a picture itself, as RGBA; of 0..1, -1..1 or 0..255, by its values. null: it is none. */
export function pictureOf(o: OutputValue): { width: number; height: number; rgba: Uint8ClampedArray<ArrayBuffer> } | null {
  const layout = isNumeric(o) ? pictureShape(o) : null;
  if (!layout) return null;
  const [a = 0, b = 0, c = 0] = squeezed(o.shape);
  const [height, width] = layout === "NHWC" ? [a, b] : [b, c];
  const v = numbers(o);
  const s = stats(v);
  const [k, add] = s.min < -1.5 || s.max > 1.5 || o.dataType === "UINT8" ? [1, 0] : s.min < 0 ? [127.5, 127.5] : [255, 0];
  const rgba = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let i = 0; i < width * height; i++) for (let j = 0; j < 3; j++) rgba[i * 4 + j] = (v[layout === "NHWC" ? i * 3 + j : j * width * height + i] ?? 0) * k + add;
  return { width, height, rgba };
}

/** The colour of a class, so that neighbours differ: red, green, blue. */
export function colourOf(index: number): readonly [number, number, number] {
  const hue = (index * 137.508) % 360;
  const f = (n: number) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (0.4 - 0.35 * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [f(0), f(8), f(4)];
}
