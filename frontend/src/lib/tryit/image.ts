// Converts pixels to a tensor. The settings are guessed from the signature, and the user can change them.
import type { Tensor } from "../api.gen";
import { t } from "../i18n/index.svelte";

export type Layout = "NCHW" | "NHWC" | "flat";
export type Scale = "none" | "unit" | "signed" | "imagenet";
export type Fit = "stretch" | "contain" | "cover";

export interface Prep {
  width: number;
  height: number;
  /** Order of the dimensions; flat is height × width (× channels last) in one dimension, or without a channel dimension. */
  layout: Layout;
  channels: 1 | 3;
  /** none: 0..255; unit: 0..1; signed: -1..1; imagenet: (x/255 - mean) / std for each channel. */
  scale: Scale;
  /** Blue first, as in OpenCV. */
  bgr: boolean;
  /** 255 - x before scaling: dark on light becomes light on dark. */
  invert: boolean;
  fit: Fit;
}

export const imagenet = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] } as const;

const isChannels = (n: number | undefined): n is 1 | 3 => n === 1 || n === 3;
const pixels = (n: number | undefined) => (n !== undefined && n > 0 ? n : 224);

/** The dimensions of one item: without the batch dimension, and without a leading 1 of a model that does not batch. */
function itemDims(t: Tensor): number[] {
  const dims = [...t.dims];
  while (dims.length > 3 && (dims[0] === 1 || (dims[0] ?? 0) < 0)) dims.shift();
  return dims;
}

/** Guesses the conversion of an image to this input; null if the input does not look like an image. */
export function guess(t: Tensor): Prep | null {
  if (!/^(FP|BF|UINT8|INT8)/.test(t.dataType)) return null;
  const found = guessPlace(t, itemDims(t));
  if (!found) return null;
  const scale: Scale = !/^(FP|BF)/.test(t.dataType) ? "none" : found.channels === 3 && found.height >= 160 ? "imagenet" : "unit";
  return { ...found, scale, bgr: false, invert: false, fit: "stretch" };
}

type Place = Pick<Prep, "width" | "height" | "layout" | "channels">;

function guessPlace(t: Tensor, d: number[]): Place | null {
  const [a, b, c] = d;
  if (d.length === 3) {
    const nhwc = isChannels(c) && (t.format === "FORMAT_NHWC" || !isChannels(a));
    if (nhwc && isChannels(c)) return { layout: "NHWC", height: pixels(a), width: pixels(b), channels: c };
    if (isChannels(a)) return { layout: "NCHW", channels: a, height: pixels(b), width: pixels(c) };
    return null;
  }
  if (d.length === 2 && a !== undefined && b !== undefined && a >= 8 && b >= 8) {
    return { layout: "flat", channels: 1, height: a, width: b };
  }
  if (d.length === 1 && a !== undefined) {
    for (const channels of [1, 3] as const) {
      const side = Math.sqrt(a / channels);
      if (Number.isInteger(side) && side >= 8) return { layout: "flat", channels, height: side, width: side };
    }
  }
  return null;
}

/**
 * How a tensor takes a picture file as it is: its bytes as UINT8 in the only dimension that is free, or as the only
 * element of BYTES. null: it takes none.
 */
export function fileShape(t: Tensor, size: number): number[] | null {
  const shape = t.shape.map((d) => (d < 0 ? 1 : d));
  if (shape.length === 0 || shape.some((d) => d !== 1)) return null;
  if (t.dataType === "BYTES") return shape;
  return t.dataType === "UINT8" && (t.shape.at(-1) ?? 0) < 0 ? shape.with(-1, size) : null;
}

/** The tensor probably takes a picture file: nothing else has UINT8 of any length, and texts are not called so. */
export const looksLikeFile = (t: Tensor) => fileShape(t, 1) !== null && (t.dataType === "UINT8" || /image|img|picture|photo|jpe?g|png/i.test(t.name));

/** The first dimension of the tensor counts images. */
export function batches(t: Tensor, p: Prep): boolean {
  const item = t.shape.slice(1);
  if ((t.shape[0] ?? 0) >= 0) return false;
  return p.layout === "flat" ? item.length > 0 && item.reduce((n, d) => n * d, 1) === elements(p) : item.length >= 3;
}

/** The shape that the request declares for n images: sizes as prepared. */
export function requestShape(t: Tensor, p: Prep, n = 1): number[] {
  return itemShape(t, p).map((d, i) => (i === 0 && batches(t, p) ? n : d));
}

/** The shape of one image with a batch of 1. */
function itemShape(t: Tensor, p: Prep): number[] {
  const place = p.layout === "NCHW" ? [p.channels, p.height, p.width] : [p.height, p.width, p.channels];
  const rank = t.shape.length;
  if (p.layout === "flat") return t.shape.map((d) => (d < 0 ? 1 : d));
  return t.shape.map((d, i) => place[i - (rank - 3)] ?? (d < 0 ? 1 : d));
}

/** The number of elements that prepare returns. */
export const elements = (p: Prep) => p.width * p.height * p.channels;

const luma = (r: number, g: number, b: number) => 0.299 * r + 0.587 * g + 0.114 * b;

/**
 * Turns RGBA pixels (width × height of p, rows from the top) into the values of the tensor, in its layout.
 * Grey is Rec. 601 luma, as PIL's "L". Transparent pixels are expected to be composed already.
 */
export function prepare(rgba: ArrayLike<number>, p: Prep): Float32Array {
  const n = p.width * p.height;
  if (rgba.length !== n * 4) throw new Error(t("input.pixels", { n: rgba.length / 4, want: `${p.width}×${p.height}` }));
  const out = new Float32Array(n * p.channels);
  for (let i = 0; i < n; i++) {
    const r = rgba[i * 4] ?? 0;
    const g = rgba[i * 4 + 1] ?? 0;
    const b = rgba[i * 4 + 2] ?? 0;
    if (p.channels === 1) {
      out[i] = scaled(Math.round(luma(r, g, b)), 0, p);
      continue;
    }
    const px = p.bgr ? [b, g, r] : [r, g, b];
    for (let c = 0; c < 3; c++) {
      // With blue first, the constants are in reverse order too.
      const v = scaled(px[c] ?? 0, p.bgr ? 2 - c : c, p);
      out[p.layout === "NCHW" ? c * n + i : i * 3 + c] = v;
    }
  }
  return out;
}

function scaled(v: number, channel: number, p: Prep): number {
  if (p.invert) v = 255 - v;
  switch (p.scale) {
    case "none":
      return v;
    case "unit":
      return v / 255;
    case "signed":
      return v / 127.5 - 1;
    case "imagenet":
      return (v / 255 - (imagenet.mean[channel] ?? 0)) / (imagenet.std[channel] ?? 1);
  }
}

/** The inverse, for display: the tensor as RGBA pixels, scaled to its range. */
export function preview(values: Float32Array, p: Prep): Uint8ClampedArray<ArrayBuffer> {
  const n = p.width * p.height;
  const { min, max } = stats(values);
  const k = max > min ? 255 / (max - min) : 0;
  const out = new Uint8ClampedArray(n * 4);
  for (let i = 0; i < n; i++) {
    for (let c = 0; c < 3; c++) {
      const ch = p.channels === 1 ? 0 : p.bgr ? 2 - c : c;
      const at = p.layout === "NCHW" ? ch * n + i : i * p.channels + ch;
      out[i * 4 + c] = ((values[at] ?? 0) - min) * k;
    }
    out[i * 4 + 3] = 255;
  }
  return out;
}

export interface Stats {
  min: number;
  max: number;
  mean: number;
}

export function stats(v: ArrayLike<number>): Stats {
  let min = Infinity;
  let max = -Infinity;
  let sum = 0;
  for (let i = 0; i < v.length; i++) {
    const x = v[i] ?? 0;
    if (x < min) min = x;
    if (x > max) max = x;
    sum += x;
  }
  return v.length ? { min, max, mean: sum / v.length } : { min: 0, max: 0, mean: 0 };
}

/** The rectangle in the target for an image of w × h, for each fit. */
export function place(w: number, h: number, p: Prep): { x: number; y: number; w: number; h: number } {
  if (p.fit === "stretch") return { x: 0, y: 0, w: p.width, h: p.height };
  const k = p.fit === "contain" ? Math.min(p.width / w, p.height / h) : Math.max(p.width / w, p.height / h);
  return { x: (p.width - w * k) / 2, y: (p.height - h * k) / 2, w: w * k, h: h * k };
}
