// The form of "Try it", and the request that it makes.
import type { Model, Tensor } from "../api.gen";
import { base, errorText } from "../api";
import { serverNow } from "../clock";
import { t } from "../i18n/index.svelte";
import { tour } from "../tour.svelte";
import { encodeElement, isFloat } from "./dtype";
import { batches, fileShape, guess, looksLikeFile, prepare, preview, requestShape, stats, type Prep, type Stats } from "./image";
import { decodeImage, jpegOf, resize } from "./pixels";
import { build, cutEvents, parseEvent, parseParameters, parseReply, parseTiming, type InferReply, type InferRequest, type InputValue, type OutputWish, type Parameters, type SequencePlace, type StreamItem, type Timing } from "./request";
import { decodeSound, looksLikeSound, samples, soundable, soundShape, usualRate } from "./sound";
import { writeSaved, type Saved } from "./saved";
import type { Call, SnippetInput, Where } from "./snippets";
import { concrete, parseShape, parseValues, random, shapeOf, volume, zeros } from "./values";

/** The user has not chosen a value yet. */
class Missing extends Error {}

export type Mode = "image" | "file" | "sound" | "values";

/** A tensor with fewer elements is not an image. */
const smallestImage = 16;
/** The most images of one request. */
const mostImages = 64;
/** The number of responses of a stream, and of requests of a sequence, that the page keeps. */
const keptItems = 500;
const keptTrail = 20;

/** An image and the name of its file. */
interface Named {
  image: ImageBitmap;
  name: string;
}

export interface Prepared {
  values: Float32Array;
  preview: Uint8ClampedArray<ArrayBuffer>;
  stats: Stats;
}

/** One input of the form. */
export class InputForm {
  mode = $state<Mode>("values");
  use = $state(true);
  shapeText = $state("");
  text = $state("");
  prep = $state<Prep>({ width: 224, height: 224, layout: "NCHW", channels: 3, scale: "unit", bgr: false, invert: false, fit: "stretch" });
  image = $state.raw<ImageBitmap | null>(null);
  fileName = $state("");
  /** The images after the first one, for a batch. */
  more = $state.raw<Named[]>([]);
  /** The bytes of the picture's file, for inputs that take files. */
  bytes = $state.raw<Uint8Array | null>(null);
  /** Samples of -1..1, and how many there are a second. */
  sound = $state.raw<Float32Array | null>(null);
  rate = $state(usualRate);
  private recording: Blob | null = null;
  error = $state("");
  readonly guessed: Prep | null;
  /** The input may be an image. */
  readonly imageable: boolean;
  /** The input takes a file as it is. */
  readonly filed: boolean;
  /** The input may be sound. */
  readonly soundable: boolean;

  constructor(readonly tensor: Tensor) {
    this.guessed = guess(tensor);
    const fixed = volume(tensor.dims.filter((d) => d >= 0));
    this.filed = fileShape(tensor, 1) !== null;
    this.imageable = this.guessed !== null || (tensor.dataType !== "BYTES" && tensor.dataType !== "BOOL" && (tensor.dims.some((d) => d < 0) || fixed >= smallestImage));
    this.soundable = this.guessed === null && soundable(tensor);
    if (looksLikeSound(tensor)) this.mode = "sound";
    if (looksLikeFile(tensor)) this.mode = "file";
    if (this.guessed) {
      this.mode = "image";
      this.prep = this.guessed;
    }
    this.use = !tensor.optional;
    this.shapeText = concrete(tensor.shape).join(", ");
    this.fill("random");
  }

  /** Takes a picture file; any file where its bytes are sent. */
  async take(file: File): Promise<void> {
    this.error = "";
    this.more = [];
    try {
      const image = await decodeImage(file).catch((e: unknown) => {
        if (this.mode !== "file") throw e;
        return null;
      });
      if (this.filed) this.bytes = new Uint8Array(await file.arrayBuffer());
      this.image = image;
      this.fileName = file.name;
    } catch (e) {
      this.error = errorText(e);
    }
  }

  /** Takes several picture files as one batch; only the first, if the input takes no batch of images. */
  async takeAll(files: readonly File[]): Promise<void> {
    const [first, ...others] = files;
    if (!first) return;
    await this.take(first);
    if (!this.batched || this.error) return;
    if (files.length > mostImages) this.error = t("input.manyImages", { n: files.length, most: mostImages });
    else
      try {
        this.more = await Promise.all(others.map(async (f) => ({ name: f.name, image: await decodeImage(f) })));
      } catch (e) {
        this.error = errorText(e);
      }
  }

  /** A request may have several images. */
  get batched(): boolean {
    return this.mode === "image" && batches(this.tensor, this.prep);
  }

  /** The images that are sent, in order. */
  get images(): Named[] {
    return this.image ? [{ image: this.image, name: this.fileName }, ...(this.batched ? this.more : [])] : [];
  }

  /** Takes a picture of the camera. */
  async picture(image: ImageBitmap): Promise<void> {
    this.error = "";
    this.more = [];
    if (this.filed) this.bytes = new Uint8Array(await (await jpegOf(image)).arrayBuffer());
    this.image = image;
    this.fileName = this.mode === "file" ? "camera.jpg" : "camera.png";
  }

  /** Takes a sound file or a recording. */
  async takeSound(file: Blob): Promise<void> {
    this.error = "";
    this.recording = file;
    try {
      this.sound = await decodeSound(file, this.rate);
    } catch (e) {
      this.error = errorText(e);
    }
  }

  /** Changes the rate, and that of the sound. */
  setRate(rate: number): void {
    this.rate = rate;
    if (this.recording) void this.takeSound(this.recording);
  }

  /** Takes typed values. They determine the shape where the signature leaves it open. */
  type(text: string): void {
    this.text = text;
    let written: number[] = [];
    try {
      written = parseShape(this.shapeText, this.tensor.shape);
    } catch {
      // the values may correct it
    }
    const shape = shapeOf(text, this.tensor.dataType, this.tensor.shape, written);
    if (shape) this.shapeText = shape.join(", ");
  }

  /** Fills the text with zeros or random values of the written shape. */
  fill(kind: "zeros" | "random"): void {
    this.error = "";
    try {
      const n = volume(parseShape(this.shapeText, this.tensor.shape));
      const v = (kind === "zeros" ? zeros : random)(this.tensor.dataType, n);
      this.text = n > 4096 && kind === "zeros" ? JSON.stringify(v[0]) : JSON.stringify(v);
    } catch (e) {
      this.error = errorText(e);
    }
  }

  /** Takes the values of a saved request. */
  set(v: InputValue): void {
    this.error = "";
    this.use = true;
    this.mode = "values";
    this.shapeText = v.shape.join(", ");
    const json = JSON.stringify(Array.from(v.data));
    this.text = /INT64$/.test(v.dataType) ? json.replaceAll('"', "") : json;
  }

  /** The tensor of the image; null without an image. */
  prepared: Prepared | null = $derived.by(() => {
    if (this.mode !== "image" || !this.image) return null;
    const p = this.prep;
    if (!(p.width > 0 && p.height > 0 && p.width * p.height <= 1 << 24)) return null;
    const values = prepare(resize(this.image, p), p);
    return { values, preview: preview(values, p), stats: stats(values) };
  });

  /** The values of all images, one after the other. */
  private all: Float32Array = $derived.by(() => {
    const [first, ...others] = this.images;
    const p = this.prep;
    if (!first || !this.prepared) return new Float32Array();
    if (others.length === 0) return this.prepared.values;
    const one = this.prepared.values.length;
    const all = new Float32Array(one * (others.length + 1));
    all.set(this.prepared.values);
    others.forEach((o, i) => all.set(prepare(resize(o.image, p), p), one * (i + 1)));
    return all;
  });

  /** The value to send. It throws an error for the user if the input is invalid. */
  value(): InputValue {
    const { name, dataType } = this.tensor;
    if (this.mode === "image") {
      if (!this.prepared) throw new Missing(t("input.noImage", { name }));
      const shape = requestShape(this.tensor, this.prep, this.images.length);
      const v = this.all;
      if (volume(shape) !== v.length) throw new Error(t("input.imageSize", { name, n: v.length, shape: shape.join(", "), want: volume(shape) }));
      return { name, dataType, shape, data: isFloat(dataType) ? v : Array.from(v, Math.round) };
    }
    if (this.mode === "file") {
      const bytes = this.bytes;
      const shape = bytes && fileShape(this.tensor, bytes.length);
      if (!shape) throw new Missing(t("input.noFile", { name }));
      return dataType === "BYTES" ? { name, dataType, shape, data: [""], raw: encodeElement(bytes) } : { name, dataType, shape, data: bytes };
    }
    if (this.mode === "sound") {
      if (!this.sound) throw new Missing(t("input.noSound", { name }));
      const shape = soundShape(this.tensor, this.sound.length);
      const data = samples(this.sound, volume(shape), dataType);
      return { name, dataType, shape, data: isFloat(dataType) ? data : Array.from(data) };
    }
    try {
      const shape = parseShape(this.shapeText, this.tensor.shape);
      return { name, dataType, shape, data: parseValues(this.text, dataType, volume(shape)) };
    } catch (e) {
      throw new Error(t("input.of", { name, reason: errorText(e) }));
    }
  }

  snippet(v: InputValue): SnippetInput {
    const about = { name: v.name, dataType: v.dataType, shape: v.shape };
    if (this.mode === "image") return { ...about, source: { kind: "image", prep: this.prep, files: this.images.map((i) => i.name || "image.png") } };
    if (this.mode === "file") return { ...about, source: { kind: "file", file: this.fileName } };
    return { ...about, source: { kind: "values", data: v.data } };
  }

  /** The pictures of the request. */
  get shown(): Picture[] {
    if (this.mode !== "image" && this.mode !== "file") return [];
    const prep = this.mode === "image" ? { ...this.prep } : null;
    return this.images.map((i) => ({ ...i, prep }));
  }
}

/** A picture that was sent. prep: how it became the tensor; null: its file was sent. */
export interface Picture {
  image: ImageBitmap;
  name: string;
  prep: Prep | null;
}

export interface Outcome {
  /** The pictures of the first input that takes pictures. */
  pictures?: Picture[];
  /** Time of sending, by the clock of the server. */
  sentMs: number;
  status: number;
  /** From the click to the complete reply. */
  clientMs: number;
  /** From the Server-Timing header; empty without the header. */
  timing: Timing;
  reply: InferReply | null;
  /** The error text of the server. */
  error: string;
  replyBytes: number;
  /** The responses of a decoupled model, in order; null for others. */
  items: StreamItem[] | null;
}

/** The answer to a request of a sequence. */
export interface Trace {
  place: SequencePlace;
  /** The outputs in short, or the error. */
  text: string;
  failed: boolean;
}

/** What a form needs to know of a model. */
export type Tried = Pick<Model, "name" | "inputs" | "outputs" | "sequences" | "decoupled">;

/** The whole form of one model. */
export class TryForm {
  readonly inputs: InputForm[];
  version = $state("");
  binary = $state(false);
  /** Names of the outputs to return as classes. */
  classes = $state<Record<string, number>>({});
  /** The parameters of the request as a JSON object; empty: none. */
  parameterText = $state("");
  busy = $state(false);
  outcome = $state.raw<Outcome | null>(null);
  /** The request that belongs to the outcome. */
  sent = $state.raw<InferRequest | null>(null);
  /** For models with sequences: the position of the next request, and the requests before it. */
  sequence = $state<SequencePlace>({ id: "1", start: true, end: false });
  trail = $state.raw<Trace[]>([]);
  private abort: AbortController | null = null;

  constructor(readonly model: Tried) {
    this.inputs = model.inputs.map((x) => new InputForm(x));
    this.binary = this.inputs.some((i) => i.mode !== "values");
    for (const o of model.outputs) this.classes[o.name] = o.labels ? 5 : 0;
  }

  private wishes(): OutputWish[] {
    return this.model.outputs.map((o) => ({ name: o.name, dataType: o.dataType, classes: this.classes[o.name] ?? 0 }));
  }

  /** What is sent. It throws an error for the user if an input is invalid. */
  values(): InputValue[] {
    return this.inputs.filter((i) => i.use).map((i) => i.value());
  }

  /** The parameters of the request. It throws an error for the user. */
  parameters(): Parameters {
    return parseParameters(this.parameterText);
  }

  /** The request of the form, or its fault. */
  request: { request: InferRequest; call: Omit<Call, Where> } | { error: string; missing: boolean } = $derived.by(() => {
    try {
      const used = this.inputs.filter((i) => i.use);
      const values = this.values();
      const outputs = this.wishes();
      const inputs = used.map((f, i) => {
        const v = values[i];
        if (!v) throw new Error("the form changed");
        return f.snippet(v);
      });
      if (this.model.sequences && /^0*$/.test(this.sequence.id)) throw new Missing(t("try.noSequence"));
      const manner = { ...(this.model.sequences ? { sequence: { ...this.sequence } } : {}), parameters: this.parameters(), stream: this.model.decoupled };
      return { request: build(values, outputs, this.binary, manner), call: { model: this.model.name, version: this.version, inputs, outputs, ...manner } };
    } catch (e) {
      return { error: errorText(e), missing: e instanceof Missing };
    }
  });

  /** Puts a saved request into the form. It throws an error for the user, and changes nothing, if it does not fit. */
  take(saved: Saved): void {
    for (const v of saved.inputs) {
      const i = this.inputs.find((x) => x.tensor.name === v.name);
      if (!i) throw new Error(t("saved.noInput", { name: v.name }));
      if (i.tensor.dataType !== v.dataType) throw new Error(t("saved.otherType", { name: v.name, type: v.dataType, want: i.tensor.dataType }));
      parseShape(v.shape.join(", "), i.tensor.shape);
    }
    const given = new Map(saved.inputs.map((v) => [v.name, v]));
    const lacks = this.inputs.find((i) => !i.tensor.optional && !given.has(i.tensor.name));
    if (lacks) throw new Error(t("saved.lacks", { name: lacks.tensor.name }));
    for (const i of this.inputs) {
      const v = given.get(i.tensor.name);
      if (v) i.set(v);
      else i.use = false;
    }
    this.classes = { ...this.classes, ...saved.classes };
    if (saved.sequence) this.sequence = saved.sequence;
    this.parameterText = Object.keys(saved.parameters).length > 0 ? JSON.stringify(saved.parameters) : "";
  }

  /** The request as the text of a saved one. It throws an error for the user if the form has a fault. */
  saved(): string {
    const values = this.inputs.filter((i) => i.use).map((i) => i.value());
    return writeSaved(values, this.wishes(), { parameters: this.parameters(), ...(this.model.sequences ? { sequence: this.sequence } : {}) });
  }

  async run(): Promise<void> {
    const r = this.request;
    if (this.busy || "error" in r) return;
    this.busy = true;
    this.abort = new AbortController();
    const version = this.version ? `/versions/${encodeURIComponent(this.version)}` : "";
    const start = performance.now();
    const sentMs = serverNow();
    const place = r.call.sequence;
    const pictures = this.inputs.find((i) => i.use && i.shown.length > 0)?.shown ?? [];
    try {
      const res = await fetch(`${base()}/api/infer/${encodeURIComponent(this.model.name)}${version}`, {
        method: "POST", headers: { ...r.request.headers, "X-Nereid": "1" }, body: r.request.body, signal: this.abort.signal,
      });
      this.sent = r.request;
      if (res.ok && res.headers.get("Content-Type")?.startsWith("text/event-stream")) await this.follow(res, start, sentMs);
      else {
        const body = await res.arrayBuffer();
        this.outcome = { ...outcome(res, body, performance.now() - start), sentMs, pictures };
      }
    } catch (e) {
      const clientMs = performance.now() - start;
      const got = this.outcome?.sentMs === sentMs ? this.outcome : null; // keep the responses of an interrupted stream
      const error = this.abort.signal.aborted ? t("try.stopped") : errorText(e);
      this.outcome = got ? { ...got, clientMs, error } : { sentMs, status: 0, clientMs, timing: { phases: {}, steps: [] }, reply: null, error, replyBytes: 0, items: null };
    } finally {
      this.busy = false;
      this.abort = null;
    }
    if (this.outcome?.reply) tour.done(2, this.model.name);
    if (place) this.step(place);
  }

  /** Aborts the running request; the server cancels it. */
  stop(): void {
    this.abort?.abort();
  }

  /** Shows the responses of a stream as they arrive. */
  private async follow(res: Response, start: number, sentMs: number): Promise<void> {
    let shown: Outcome = { sentMs, status: res.status, clientMs: 0, timing: { phases: {}, steps: [] }, reply: null, error: "", replyBytes: 0, items: [] };
    const decoder = new TextDecoder();
    let items: StreamItem[] = [];
    let rest = "";
    this.outcome = shown;
    const reader = res.body?.getReader();
    for (let over = !reader; !over; ) {
      const chunk = await reader?.read();
      over = chunk?.done ?? true;
      const clientMs = performance.now() - start;
      rest += decoder.decode(chunk?.value, { stream: !over });
      const cut = cutEvents(over ? rest + "\n\n" : rest);
      rest = cut.rest;
      items = [...items, ...cut.events.map((e) => parseEvent(e, clientMs))].slice(-keptItems);
      shown = { ...shown, items, clientMs, replyBytes: shown.replyBytes + (chunk?.value?.length ?? 0), reply: items.findLast((i) => i.reply)?.reply ?? null };
      this.outcome = shown;
    }
  }

  /** Records the answer to a request of the sequence and prepares the next one. After the last request a new sequence starts. */
  private step(place: SequencePlace): void {
    const o = this.outcome;
    const failed = o === null || o.error !== "";
    this.trail = [...this.trail, { place, failed, text: failed ? (o?.error ?? "") : brief(o.reply) }].slice(-keptTrail);
    if (failed) return; // the same request may be sent again
    const n = Number(place.id);
    this.sequence = place.end ? { id: Number.isSafeInteger(n) ? String(n + 1) : place.id, start: true, end: false } : { ...place, start: false };
  }
}

/** Kept requests that "Try it" shall show, by model. */
const handed = new Map<string, Pick<Saved, "inputs" | "parameters">>();

/** Gives the inputs and parameters of a request to the form of a model, which takes them when it is shown next. */
export function hand(model: string, inputs: InputValue[], parameters: Parameters): void {
  handed.set(model, { inputs, parameters });
}

/** Takes what was handed to a form. It returns why they do not fit; empty: they do, or there are none. */
export function takeHanded(form: TryForm): string {
  const given = handed.get(form.model.name);
  handed.delete(form.model.name);
  try {
    if (given) form.take({ ...given, classes: {}, sequence: null });
    return "";
  } catch (e) {
    return errorText(e);
  }
}

/** The forms that were used last, by model. */
const kept = new Map<string, { signature: string; form: TryForm; end: () => void }>();
const keptForms = 5;

/** The form of a model. It keeps what was typed while the page shows something else, unless the signature changes. */
export function formOf(model: Model, signature: string): TryForm {
  let f = kept.get(model.name);
  kept.delete(model.name);
  if (f?.signature !== signature) {
    f?.end();
    let form: TryForm | undefined;
    const end = $effect.root(() => void (form = new TryForm(model))); // it outlives the view
    if (!form) throw new Error("a root runs at once");
    f = { signature, form, end };
  }
  kept.set(model.name, f); // as the newest
  for (const [name, old] of kept) {
    if (kept.size <= keptForms) break;
    old.form.stop();
    old.end();
    kept.delete(name);
  }
  return f.form;
}

/** The outputs of a reply in one line. */
function brief(r: InferReply | null): string {
  const some = (v: readonly unknown[]) => v.slice(0, 4).join(", ") + (v.length > 4 ? ", …" : "");
  return (r?.outputs ?? []).map((o) => `${o.name} ${some(o.data)}`).join(" · ");
}

function outcome(res: Response, body: ArrayBuffer, clientMs: number): Omit<Outcome, "sentMs"> {
  const out: Omit<Outcome, "sentMs"> = { status: res.status, clientMs, timing: parseTiming(res.headers.get("Server-Timing")), reply: null, error: "", replyBytes: body.byteLength, items: null };
  if (!res.ok) {
    out.error = errorOf(new TextDecoder().decode(body));
    return out;
  }
  try {
    out.reply = parseReply(body, res.headers.get("Inference-Header-Content-Length"));
  } catch (e) {
    out.error = t("try.unreadable", { reason: errorText(e) });
  }
  return out;
}

function errorOf(text: string): string {
  try {
    const v: unknown = JSON.parse(text);
    if (typeof v === "object" && v !== null && "error" in v) return String(v.error);
  } catch {
    // not JSON: show the text
  }
  return text;
}
