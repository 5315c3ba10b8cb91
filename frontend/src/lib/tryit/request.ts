// The inference request of the protocol: its JSON header, its binary part, and the reply.
import { errorText } from "../api";
import { t } from "../i18n/index.svelte";
import { decode, encode, needsBinary, type Element } from "./dtype";
import { integer, quoteLong } from "./values";

export interface InputValue {
  name: string;
  dataType: string;
  shape: number[];
  data: ArrayLike<Element>;
  /** The binary tensor data, where data cannot say it: the bytes of a file as an element of BYTES. */
  raw?: Uint8Array;
}

export interface OutputWish {
  name: string;
  dataType: string;
  /** Ask for the best k classes instead of the values; 0: the values. */
  classes: number;
}

export interface InferRequest {
  body: Uint8Array<ArrayBuffer>;
  headers: Record<string, string>;
  /** The JSON part, as sent. */
  json: string;
  /** Length of the binary part. */
  binaryBytes: number;
}

export interface OutputValue {
  name: string;
  dataType: string;
  shape: number[];
  data: Element[];
}

/** The outputs of each item of a batch of n; null: an output has another number of items. */
export function perItem(outputs: readonly OutputValue[], n: number): OutputValue[][] | null {
  if (outputs.some((o) => o.shape[0] !== n)) return null;
  return Array.from({ length: n }, (_, i) =>
    outputs.map((o) => {
      const size = o.data.length / n;
      return { ...o, shape: o.shape.with(0, 1), data: o.data.slice(i * size, (i + 1) * size) };
    }),
  );
}

export interface InferReply {
  model: string;
  version: string;
  outputs: OutputValue[];
  /** The JSON part as received. */
  json: string;
}

const length = "Inference-Header-Content-Length";

/** 64-bit integers beyond 2^53 are strings of digits; JSON.stringify would quote them. */
const hasBig = (v: InputValue) => /INT64$/.test(v.dataType) && Array.from(v.data).some((e) => typeof e === "string");

/** The position of a request in a sequence. */
export interface SequencePlace {
  /** A number, or any text for models whose correlation ID is a string. */
  id: string;
  start: boolean;
  end: boolean;
}

/** The parameters of a request in a sequence. An ID of digits is sent as a number if that is exact. */
export function sequenceParameters(p: SequencePlace): Parameters {
  const n = Number(p.id);
  const id = /^[1-9]\d*$/.test(p.id) && Number.isSafeInteger(n) ? n : p.id;
  return { sequence_id: id, sequence_start: p.start, sequence_end: p.end };
}

/** The parameters of a request, by name. */
export type Parameters = Record<string, string | number | boolean>;

/** Parameters of the protocol that other parts of the form say. */
const ownParameters = ["sequence_id", "sequence_start", "sequence_end", "binary_data_output"];

/** Reads parameters as a JSON object. Empty text: none. It throws an error for the user. */
export function parseParameters(text: string): Parameters {
  if (text.trim() === "") return {};
  let v: unknown;
  try {
    v = JSON.parse(text);
  } catch (e) {
    throw new Error(t("input.noParameters", { reason: errorText(e) }));
  }
  if (typeof v !== "object" || v === null || Array.isArray(v)) throw new Error(t("input.noParameters", { reason: text.trim() }));
  for (const [name, value] of Object.entries(v)) {
    if (!["string", "number", "boolean"].includes(typeof value)) throw new Error(t("input.parameterValue", { name }));
    if (ownParameters.includes(name)) throw new Error(t("input.ownParameter", { name }));
  }
  return v as Parameters;
}

/** The parameters of a request without those that other parts of the form say. */
export function otherParameters(given: object): Parameters {
  return Object.fromEntries(Object.entries(given).filter(([name]) => !ownParameters.includes(name)));
}

/** Options of a request: its sequence, and whether it has any number of responses. */
export interface Manner {
  sequence?: SequencePlace;
  parameters?: Parameters;
  stream?: boolean;
  /** Every output comes as binary tensor data. */
  binaryOutputs?: boolean;
}

/** Makes the request. With binary, every input is binary tensor data; otherwise only inputs without a JSON form. */
export function build(inputs: InputValue[], outputs: OutputWish[], binary: boolean, manner: Manner = {}): InferRequest {
  const parts: Uint8Array[] = [];
  const parameters = { ...allParameters(manner), ...(manner.binaryOutputs ? { binary_data_output: true } : {}) };
  const head = {
    ...(Object.keys(parameters).length > 0 ? { parameters } : {}),
    inputs: inputs.map((v) => {
      const about = { name: v.name, shape: v.shape, datatype: v.dataType };
      if (!binary && !v.raw && !needsBinary(v.dataType) && !hasBig(v)) return { ...about, data: Array.from(v.data) };
      const raw = v.raw ?? encode(v.dataType, v.data);
      parts.push(raw);
      return { ...about, parameters: { binary_data_size: raw.length } };
    }),
    ...(outputs.length > 0 ? { outputs: outputs.map((o) => ({ name: o.name, ...outputParameters(o) })) } : {}),
  };
  const json = JSON.stringify(head);
  const text = new TextEncoder().encode(json);
  const binaryBytes = parts.reduce((n, p) => n + p.length, 0);
  const headers: Record<string, string> = { "Content-Type": "application/json", ...(manner.stream ? { Accept: "text/event-stream" } : {}) };
  if (parts.length > 0) {
    headers["Content-Type"] = "application/octet-stream";
    headers[length] = String(text.length);
  }
  const body = new Uint8Array(text.length + binaryBytes);
  body.set(text);
  let at = text.length;
  for (const p of parts) {
    body.set(p, at);
    at += p.length;
  }
  return { body, headers, json, binaryBytes };
}

/** The parameters of a request as they are sent. */
export function allParameters(m: Manner): Parameters {
  return { ...m.parameters, ...(m.sequence ? sequenceParameters(m.sequence) : {}) };
}

function outputParameters(o: OutputWish): { parameters?: Record<string, number | boolean> } {
  if (o.classes > 0) return { parameters: { classification: o.classes } };
  if (needsBinary(o.dataType)) return { parameters: { binary_data: true } };
  return {};
}

interface WireOutput {
  name: string;
  datatype: string;
  shape: number[];
  data?: Element[];
  parameters?: { binary_data_size?: number };
}
interface WireReply {
  model_name: string;
  model_version: string;
  outputs: WireOutput[];
}

const is64 = (o: WireOutput) => /INT64$/.test(o.datatype);
const flat = (o: WireOutput) => (o.data ?? []).flat(Infinity) as Element[];

/** Reads the JSON part. JSON.parse would round 64-bit integers beyond 2^53; they become digits. */
function parseJSON(json: string): WireReply {
  const reply = JSON.parse(json) as WireReply;
  const rounded = reply.outputs?.some((o) => is64(o) && flat(o).some((e) => typeof e === "number" && !Number.isSafeInteger(e)));
  if (!rounded) return reply;
  const exact = JSON.parse(quoteLong(json)) as WireReply;
  const outputs = exact.outputs.map((o, i) => {
    const read = reply.outputs[i] ?? o;
    return is64(o) && o.data ? { ...read, data: flat(o).map((e) => integer(String(e))) } : read;
  });
  return { ...reply, outputs };
}

/** Reads a reply of status 200. header is its Inference-Header-Content-Length, if any. */
export function parseReply(body: ArrayBuffer, header: string | null): InferReply {
  const n = header === null ? body.byteLength : Number(header);
  if (!Number.isInteger(n) || n < 0 || n > body.byteLength) throw new Error(t("output.badHeader", { header: length, value: String(header), n: body.byteLength }));
  const json = new TextDecoder().decode(new Uint8Array(body, 0, n));
  const reply = parseJSON(json);
  let at = n;
  const outputs = (reply.outputs ?? []).map((o) => {
    const size = o.parameters?.binary_data_size;
    if (size === undefined) return { name: o.name, dataType: o.datatype, shape: o.shape, data: flat(o) };
    if (at + size > body.byteLength) throw new Error(t("output.endsInside", { name: o.name }));
    const raw = new Uint8Array(body, at, size);
    at += size;
    return { name: o.name, dataType: o.datatype, shape: o.shape, data: decode(o.datatype, raw) };
  });
  return { model: reply.model_name, version: reply.model_version, outputs, json };
}

/** One response of a stream. */
export interface StreamItem {
  /** Milliseconds since the request was sent. */
  ms: number;
  reply: InferReply | null;
  /** The error text of the server, if the response is an error. */
  error: string;
}

/** Reads one event of a stream of server-sent events: a reply, or {"error": …}. */
export function parseEvent(data: string, ms: number): StreamItem {
  const v: unknown = JSON.parse(data);
  if (typeof v === "object" && v !== null && "error" in v) return { ms, reply: null, error: String(v.error) };
  const body = new TextEncoder().encode(data);
  return { ms, reply: parseReply(body.buffer, null), error: "" };
}

/** Splits a growing text into the data of its events; rest is the incomplete end. */
export function cutEvents(text: string): { events: string[]; rest: string } {
  const blocks = text.replace(/\r\n/g, "\n").split("\n\n");
  const rest = blocks.pop() ?? "";
  const events = blocks.map((b) => b.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).replace(/^ /, "")).join("\n"));
  return { events: events.filter((e) => e !== ""), rest };
}

/** One class of a classification: the elements of the reply are "score:index" or "score:index:label". */
export interface Class {
  score: number;
  index: number;
  label: string;
}

export function parseClass(e: Element): Class {
  const s = String(e);
  const m = /^([^:]*):(\d+)(?::([\s\S]*))?$/.exec(s);
  if (!m) throw new Error(t("output.noClass", { value: s }));
  return { score: Number(m[1]), index: Number(m[2]), label: m[3] ?? "" };
}

/** The best k of a vector, ties by index. */
export function topK(v: readonly Element[], k: number, labels: readonly string[] = []): Class[] {
  return v
    .map((e, index) => ({ score: Number(e), index, label: labels[index] ?? "" }))
    .sort((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, k);
}

/** A step of an ensemble's request. */
export interface Step {
  /** model:version */
  model: string;
  /** Start in milliseconds after the start of the request. */
  startMs: number;
  ms: number;
}

export interface Timing {
  /** The phases by name, in milliseconds. */
  phases: Record<string, number>;
  /** The steps of an ensemble, in the order of their start. */
  steps: Step[];
}

/** Reads the Server-Timing header: phases, and step-1-name;desc="model:version";start=0.5;dur=1.5 for the steps of an ensemble. */
export function parseTiming(header: string | null): Timing {
  const out: Timing = { phases: {}, steps: [] };
  const entry = /([\w.-]+)\s*((?:;\s*[\w-]+\s*=\s*(?:"(?:\\.|[^"\\])*"|[^\s",;]+)\s*)*)(?:,|$)/g;
  const param = /([\w-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s",;]+))/g;
  for (const [, name = "", params = ""] of (header ?? "").matchAll(entry)) {
    const p = new Map([...params.matchAll(param)].map(([, key, quoted, plain]) => [key, quoted?.replace(/\\(.)/g, "$1") ?? plain ?? ""]));
    const dur = p.get("dur");
    if (dur === undefined) continue;
    if (/^step-\d+-/.test(name)) out.steps.push({ model: p.get("desc") ?? name.replace(/^step-\d+-/, ""), startMs: Number(p.get("start") ?? 0), ms: Number(dur) });
    else out.phases[name] = Number(dur);
  }
  return out;
}
