// Input values that are not images: typed by hand, zeros or random.
import { t } from "../i18n/index.svelte";
import { isFloat, type Element } from "./dtype";

/** The number of elements of a shape. */
export const volume = (shape: readonly number[]) => shape.reduce((n, d) => n * d, 1);

/** A first shape: every variable dimension is 1. */
export const concrete = (shape: readonly number[]) => shape.map((d) => (d < 0 ? 1 : d));

/** Reads "1, 3, 224" or "[1,3,224]". Dimensions must agree with the signature. */
export function parseShape(text: string, want: readonly number[]): number[] {
  const parts = text.replace(/[[\]\s]/g, "").split(/[,x×]/).filter((s) => s !== "");
  const dims = parts.map(Number);
  if (dims.some((d) => !Number.isInteger(d) || d < 0)) throw new Error(t("input.noShape", { text }));
  if (dims.length !== want.length) throw new Error(t("input.rank", { shape: dims.join(", "), n: dims.length, want: want.length, signature: want.join(", ") }));
  want.forEach((w, i) => {
    if (w >= 0 && dims[i] !== w) throw new Error(t("input.dimension", { i, shape: dims.join(", "), want: w }));
  });
  return dims;
}

export function zeros(dataType: string, n: number): Element[] {
  return new Array<Element>(n).fill(dataType === "BYTES" ? "" : dataType === "BOOL" ? false : 0);
}

/** Random values in a sensible range: floats 0..1, integers 0..9, booleans, short words. */
export function random(dataType: string, n: number, rnd: () => number = Math.random): Element[] {
  const one = (): Element => {
    if (dataType === "BYTES") return `text-${Math.floor(rnd() * 1000)}`;
    if (dataType === "BOOL") return rnd() < 0.5;
    return isFloat(dataType) ? Math.round(rnd() * 1000) / 1000 : Math.floor(rnd() * 10);
  };
  return Array.from({ length: n }, one);
}

/**
 * Reads values as JSON: nested or flat arrays, or one bare value. 64-bit integers keep all their digits.
 * The number of elements must be n, a single one is repeated.
 */
export function parseValues(text: string, dataType: string, n: number): Element[] {
  let v: unknown;
  try {
    v = parseJSON(text, dataType);
  } catch (e) {
    const hint = dataType === "BYTES" ? '["text", "more text"]' : "[1, 2, 3]";
    throw new Error(t("input.noJSON", { reason: e instanceof Error ? e.message : String(e), hint }));
  }
  if (Array.isArray(v)) checkNesting(v as unknown[], nesting(v));
  const flat = (Array.isArray(v) ? v.flat(Infinity) : [v]) as unknown[];
  const data = flat.map((e) => element(e, dataType));
  const first = data[0];
  if (data.length === 1 && first !== undefined && n > 1) return new Array<Element>(n).fill(first);
  if (data.length !== n) throw new Error(t("input.count", { n: data.length, want: n }));
  return data;
}

/** Throws an error with the place of the first list that is not as long as the first of its level, or that is none. */
function checkNesting(list: readonly unknown[], sizes: readonly number[], place = "", depth = 0): void {
  const want = sizes[depth] ?? 0;
  if (list.length !== want) throw new Error(t("input.ragged", { place, n: list.length, first: "[0]".repeat(depth), want }));
  const inner = depth + 1 < sizes.length;
  const odd = list.findIndex((x) => Array.isArray(x) !== inner);
  if (odd >= 0) throw new Error(t(inner ? "input.noValue" : "input.noList", { place: `${place}[${odd}]` }));
  if (inner) list.forEach((x, i) => checkNesting(x as unknown[], sizes, `${place}[${i}]`, depth + 1));
}

function parseJSON(text: string, dataType: string): unknown {
  return JSON.parse(/INT64$/.test(dataType) ? quoteLong(text) : text);
}

/** JSON with quotes around integers of 16 digits and more, which JSON.parse may round. Strings and fractions do not change. */
export function quoteLong(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (m) => (/^-?\d{16,}$/.test(m) ? `"${m}"` : m));
}

/** A whole number as an element: a number if that is exact, otherwise its digits. */
export const integer = (digits: string): Element => (Number.isSafeInteger(Number(digits)) ? Number(digits) : digits);

/**
 * The shape that typed values have, for a signature with dimensions of any size: that of nested arrays, or of a flat
 * array by its length when one dimension is free. A free first dimension beside one other (a batch) stays as written.
 * null when the values do not tell: a bare value fills any shape.
 */
export function shapeOf(text: string, dataType: string, want: readonly number[], written: readonly number[]): number[] | null {
  let v: unknown;
  try {
    v = parseJSON(text, dataType);
  } catch {
    return null; // incomplete text; parseValues reports the fault
  }
  if (!Array.isArray(v)) return null;
  const nested = nesting(v);
  if (nested.length > 1 && nested.length === want.length && volume(nested) === v.flat(Infinity).length && want.every((w, i) => w < 0 || w === nested[i])) return nested;
  const free = want.flatMap((w, i) => (w < 0 ? [i] : []));
  const keepsBatch = free.length === 2 && free[0] === 0 && written.length === want.length;
  const at = free.length === 1 ? free[0] : keepsBatch ? free[1] : undefined;
  if (at === undefined) return null;
  const shape = want.map((w, i) => (i === at ? 1 : w < 0 ? (written[i] ?? 1) : w));
  const size = v.flat(Infinity).length / volume(shape);
  return Number.isInteger(size) ? shape.with(at, size) : null;
}

/** The sizes of nested arrays, from the first element of each. */
function nesting(v: unknown): number[] {
  return Array.isArray(v) ? [v.length, ...nesting(v[0])] : [];
}

function element(e: unknown, dataType: string): Element {
  if (dataType === "BYTES") {
    if (typeof e !== "string") throw new Error(t("input.noText", { value: JSON.stringify(e) }));
    return e;
  }
  if (dataType === "BOOL") {
    if (typeof e !== "boolean" && e !== 0 && e !== 1) throw new Error(t("input.noBoolean", { value: JSON.stringify(e) }));
    return Boolean(e);
  }
  if (typeof e === "string" && /INT64$/.test(dataType) && /^-?\d+$/.test(e)) return integer(e);
  if (typeof e !== "number") throw new Error(t("input.noNumber", { value: JSON.stringify(e), type: dataType }));
  if (!isFloat(dataType) && !Number.isInteger(e)) throw new Error(t("input.noWhole", { value: e, type: dataType }));
  return e;
}
