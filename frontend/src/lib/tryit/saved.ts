// Saved requests: files of the KServe protocol's JSON in the folder "requests" of a model.
import { t } from "../i18n/index.svelte";
import { decode, encode, needsBinary, type Element } from "./dtype";
import { allParameters, otherParameters, parseParameters, type InputValue, type Manner, type OutputWish, type Parameters, type SequencePlace } from "./request";
import { volume } from "./values";

/** The largest saved request in bytes, as on the server. */
export const maxSaved = 4 << 20;

export interface Saved {
  inputs: InputValue[];
  /** The number of classes of each output, for outputs that the request names. */
  classes: Record<string, number>;
  sequence: SequencePlace | null;
  parameters: Parameters;
}

interface WireInput {
  name: string;
  datatype: string;
  shape: number[];
  data?: unknown;
  b64?: string;
}
interface WireSaved {
  inputs: WireInput[];
  outputs?: { name: string; parameters?: { classification?: number } }[];
  parameters?: { sequence_id?: string | number; sequence_start?: boolean; sequence_end?: boolean };
}

/** Quotes integers that JSON.parse would round. */
const exact = (text: string) => text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g, (m) => (/^-?\d{16,}$/.test(m) ? `"${m}"` : m));

/** Reads a saved request. It throws an error for the user. */
export function parseSaved(text: string): Saved {
  const v: unknown = JSON.parse(exact(text));
  if (!isSaved(v)) throw new Error(t("saved.noRequest"));
  const p = v.parameters;
  return {
    inputs: v.inputs.map(input),
    classes: Object.fromEntries((v.outputs ?? []).map((o) => [o.name, o.parameters?.classification ?? 0])),
    sequence: p?.sequence_id === undefined ? null : { id: String(p.sequence_id), start: p.sequence_start === true, end: p.sequence_end === true },
    parameters: parseParameters(JSON.stringify(otherParameters(p ?? {}))),
  };
}

function isSaved(v: unknown): v is WireSaved {
  if (typeof v !== "object" || v === null || !("inputs" in v) || !Array.isArray(v.inputs)) return false;
  return v.inputs.every((i: Partial<WireInput> | null) => typeof i?.name === "string" && typeof i.datatype === "string" && Array.isArray(i.shape) && (Array.isArray(i.data) || typeof i.b64 === "string"));
}

function input(w: WireInput): InputValue {
  const { name, datatype: dataType, shape } = w;
  const data = w.b64 === undefined ? ((w.data as unknown[]).flat(Infinity) as Element[]) : fromBase64(name, dataType, w.b64);
  if (data.length !== volume(shape)) throw new Error(t("input.of", { name, reason: t("input.count", { n: data.length, want: volume(shape) }) }));
  return { name, dataType, shape, data: /INT64$/.test(dataType) || dataType === "BYTES" ? data : data.map((e) => (typeof e === "string" ? Number(e) : e)) };
}

function fromBase64(name: string, dataType: string, b64: string): Element[] {
  const raw = Uint8Array.from(atob(b64), (c) => c.charCodeAt(0));
  const data = decode(dataType, raw);
  const again = dataType === "BYTES" ? encode(dataType, data) : raw;
  if (again.length !== raw.length || again.some((b, i) => b !== raw[i])) throw new Error(t("input.of", { name, reason: t("saved.notText") }));
  return data;
}

/** The shortest digits of a 32-bit float. */
function short(v: number): number {
  for (const digits of [7, 8]) {
    const s = Number(v.toPrecision(digits));
    if (Math.fround(s) === Math.fround(v)) return s;
  }
  return Number(v.toPrecision(9));
}

/** The text of a saved request, which any client can send. Types without a JSON form have b64 in place of data. */
export function writeSaved(inputs: readonly InputValue[], outputs: readonly OutputWish[], manner: Manner): string {
  const lines = inputs.map((v) => {
    const head = JSON.stringify({ name: v.name, shape: v.shape, datatype: v.dataType }).slice(0, -1);
    if (v.raw || needsBinary(v.dataType)) {
      const raw = Array.from(v.raw ?? encode(v.dataType, v.data), (b) => String.fromCharCode(b)).join("");
      return `${head},"b64":${JSON.stringify(btoa(raw))}}`;
    }
    const data = Array.from(v.data, (e) => (v.dataType === "FP32" && typeof e === "number" ? short(e) : e));
    const json = JSON.stringify(data);
    return `${head},"data":${/INT64$/.test(v.dataType) ? json.replaceAll('"', "") : json}}`;
  });
  const wishes = outputs.map((o) => ({ name: o.name, ...(o.classes > 0 ? { parameters: { classification: o.classes } } : {}) }));
  const given = allParameters(manner);
  const parameters = Object.keys(given).length > 0 ? `"parameters":${JSON.stringify(given)},\n ` : "";
  return `{${parameters}"inputs":[\n  ${lines.join(",\n  ")}\n ],\n "outputs":${JSON.stringify(wishes)}}\n`;
}
