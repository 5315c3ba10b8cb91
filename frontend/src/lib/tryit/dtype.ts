// The protocol's data types: sizes, and bytes to and from numbers.
import { num } from "../format";
import { t } from "../i18n/index.svelte";

/** Bytes of one element; BYTES has no fixed size. */
export const sizes: Readonly<Record<string, number>> = {
  BOOL: 1, UINT8: 1, INT8: 1, UINT16: 2, INT16: 2, FP16: 2, BF16: 2,
  UINT32: 4, INT32: 4, FP32: 4, UINT64: 8, INT64: 8, FP64: 8,
};

/** FP16 and BF16 have no JSON form in the protocol, so they are sent as binary data. */
export const needsBinary = (dataType: string) => dataType === "FP16" || dataType === "BF16";
export const isFloat = (dataType: string) => /^(FP|BF)/.test(dataType);

/** An element: a string for BYTES and for 64-bit integers beyond 2^53. */
export type Element = number | string | boolean;

/** An element as the page shows it: texts in quotes, floats with six digits, integers with all. */
export function elementText(e: Element, dataType: string): string {
  if (dataType === "BYTES") return JSON.stringify(e);
  return typeof e === "number" && isFloat(dataType) ? num(e) : String(e);
}

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

/** IEEE 754 half precision bits of v, rounded to nearest even. */
export function toHalf(v: number): number {
  f32[0] = v;
  const x = u32[0] ?? 0;
  const sign = (x >>> 16) & 0x8000;
  const exp = (x >>> 23) & 0xff;
  const man = x & 0x7fffff;
  if (exp === 0xff) return sign | 0x7c00 | (man ? 0x200 : 0);
  const e = exp - 112;
  if (e >= 31) return sign | 0x7c00;
  if (e <= 0) {
    if (e < -10) return sign;
    const m = man | 0x800000;
    const shift = 14 - e;
    return sign | roundShift(m, shift);
  }
  return sign | (((e << 10) | 0) + roundShift(man, 13)); // a carry of the mantissa correctly raises the exponent
}

function roundShift(m: number, shift: number): number {
  const q = m >>> shift;
  const rest = m & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return rest > half || (rest === half && (q & 1) === 1) ? q + 1 : q;
}

export function fromHalf(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const e = (h >>> 10) & 0x1f;
  const m = h & 0x3ff;
  if (e === 0) return sign * m * 2 ** -24;
  if (e === 31) return m ? NaN : sign * Infinity;
  return sign * (1 + m / 1024) * 2 ** (e - 15);
}

/** bfloat16 bits of v, rounded to nearest even. */
export function toBfloat(v: number): number {
  f32[0] = v;
  const x = u32[0] ?? 0;
  if (Number.isNaN(v)) return 0x7fc0;
  return ((x + 0x7fff + ((x >>> 16) & 1)) >>> 16) & 0xffff;
}

export function fromBfloat(b: number): number {
  u32[0] = (b << 16) >>> 0;
  return f32[0] ?? 0;
}

type Put = (d: DataView, at: number, v: number) => void;
const puts: Readonly<Record<string, Put>> = {
  BOOL: (d, i, v) => d.setUint8(i, v ? 1 : 0),
  UINT8: (d, i, v) => d.setUint8(i, v),
  INT8: (d, i, v) => d.setInt8(i, v),
  UINT16: (d, i, v) => d.setUint16(i, v, true),
  INT16: (d, i, v) => d.setInt16(i, v, true),
  UINT32: (d, i, v) => d.setUint32(i, v, true),
  INT32: (d, i, v) => d.setInt32(i, v, true),
  FP16: (d, i, v) => d.setUint16(i, toHalf(v), true),
  BF16: (d, i, v) => d.setUint16(i, toBfloat(v), true),
  FP32: (d, i, v) => d.setFloat32(i, v, true),
  FP64: (d, i, v) => d.setFloat64(i, v, true),
};

/** The binary tensor data of elements: little-endian; BYTES elements each after a 4-byte length. */
export function encode(dataType: string, elements: ArrayLike<Element>): Uint8Array<ArrayBuffer> {
  if (dataType === "BYTES") return encodeStrings(elements);
  const size = sizes[dataType];
  if (!size) throw new Error(t("input.cannotSend", { type: dataType }));
  const out = new Uint8Array(elements.length * size);
  const view = new DataView(out.buffer);
  const put = puts[dataType];
  for (let i = 0; i < elements.length; i++) {
    const e = elements[i] ?? 0;
    if (put) put(view, i * size, Number(e));
    else if (dataType === "INT64") view.setBigInt64(i * size, BigInt(e), true);
    else view.setBigUint64(i * size, BigInt(e), true);
  }
  return out;
}

/** The binary tensor data of one BYTES element. */
export function encodeElement(e: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(4 + e.length);
  new DataView(out.buffer).setUint32(0, e.length, true);
  out.set(e, 4);
  return out;
}

function encodeStrings(elements: ArrayLike<Element>): Uint8Array<ArrayBuffer> {
  const enc = new TextEncoder();
  const parts = Array.from(elements, (e) => enc.encode(String(e)));
  const out = new Uint8Array(parts.reduce((n, p) => n + 4 + p.length, 0));
  const view = new DataView(out.buffer);
  let at = 0;
  for (const p of parts) {
    view.setUint32(at, p.length, true);
    out.set(p, at + 4);
    at += 4 + p.length;
  }
  return out;
}

type Get = (d: DataView, at: number) => Element;
const gets: Readonly<Record<string, Get>> = {
  BOOL: (d, i) => d.getUint8(i) !== 0,
  UINT8: (d, i) => d.getUint8(i),
  INT8: (d, i) => d.getInt8(i),
  UINT16: (d, i) => d.getUint16(i, true),
  INT16: (d, i) => d.getInt16(i, true),
  UINT32: (d, i) => d.getUint32(i, true),
  INT32: (d, i) => d.getInt32(i, true),
  FP16: (d, i) => fromHalf(d.getUint16(i, true)),
  BF16: (d, i) => fromBfloat(d.getUint16(i, true)),
  FP32: (d, i) => d.getFloat32(i, true),
  FP64: (d, i) => d.getFloat64(i, true),
  INT64: (d, i) => safe(d.getBigInt64(i, true)),
  UINT64: (d, i) => safe(d.getBigUint64(i, true)),
};

/** The value as a number if that is exact, otherwise as digits. */
function safe(b: bigint): Element {
  const n = Number(b);
  return Number.isSafeInteger(n) ? n : b.toString();
}

/** Reads binary tensor data. It throws if bytes are missing or left over. */
export function decode(dataType: string, b: Uint8Array): Element[] {
  const view = new DataView(b.buffer, b.byteOffset, b.byteLength);
  if (dataType === "BYTES") return decodeStrings(b, view);
  const size = sizes[dataType];
  const get = gets[dataType];
  if (!size || !get) throw new Error(t("output.cannotRead", { type: dataType }));
  if (b.byteLength % size !== 0) throw new Error(t("output.notWhole", { n: b.byteLength, type: dataType }));
  return Array.from({ length: b.byteLength / size }, (_, i) => get(view, i * size));
}

function decodeStrings(b: Uint8Array, view: DataView): Element[] {
  const dec = new TextDecoder();
  const out: string[] = [];
  for (let at = 0; at < b.byteLength; ) {
    if (at + 4 > b.byteLength) throw new Error(t("output.endsInLength"));
    const n = view.getUint32(at, true);
    at += 4;
    if (at + n > b.byteLength) throw new Error(t("output.endsInElement"));
    out.push(dec.decode(b.subarray(at, at + n)));
    at += n;
  }
  return out;
}
