// The steps of an ensemble in the text of its configuration: read, checked against the models, and changed in place.
import type { Model } from "./api.gen";
import { type Field, find, messages, parse, withField, withMessage, withoutMessage } from "./pbtxt/tree";

export interface Port {
  name: string;
  /** In the protocol's form: FP32, INT64, BYTES. */
  dataType: string;
  /** As clients send it, with the batch dimension where there is one. -1: any size. */
  shape: number[];
  optional: boolean;
}
/** A step and its maps: the tensor of the ensemble for each input and output of the model. */
export interface Step {
  model: string;
  version: string;
  inputs: Record<string, string>;
  outputs: Record<string, string>;
}
export interface Ensemble {
  inputs: Port[];
  outputs: Port[];
  steps: Step[];
}
/** A port of a step. step -1: an input or output of the ensemble itself; then port "" is a new one. */
export interface End {
  step: number;
  port: string;
}
/** A tensor from the port that makes it to one that takes it. */
export interface Wire {
  from: End;
  to: End;
}
type Ports = Pick<Model, "name" | "inputs" | "outputs">;

const plain = (f: Field | undefined) => (f?.value ?? "").replace(/^["']|["']$/g, "");
const entry = (f: Field) => [plain(find(f.fields ?? [], ["key"])), plain(find(f.fields ?? [], ["value"]))] as const;
const map = (step: Field, name: "input_map" | "output_map") => Object.fromEntries(messages(step.fields ?? [], name).map(entry));
const stepFields = (text: string) => messages(find(parse(text), ["ensemble_scheduling"])?.fields ?? [], "step");

/** Reads what the text says; maps and ports that are missing are left out. */
export function read(text: string): Ensemble {
  const fields = parse(text);
  const batches = Number(find(fields, ["max_batch_size"])?.value ?? 0) > 0;
  const ports = (name: string) =>
    messages(fields, name).map((f): Port => {
      const of = (n: string) => find(f.fields ?? [], [n]);
      const type = plain(of("data_type")).replace(/^TYPE_/, "");
      const dims = (of("dims")?.value.match(/-?\d+/g) ?? []).map(Number);
      return { name: plain(of("name")), dataType: type === "STRING" ? "BYTES" : type, shape: batches ? [-1, ...dims] : dims, optional: plain(of("optional")) === "true" };
    });
  const steps = stepFields(text).map((f): Step => {
    const of = (n: string) => plain(find(f.fields ?? [], [n]));
    return { model: of("model_name"), version: of("model_version") || "-1", inputs: map(f, "input_map"), outputs: map(f, "output_map") };
  });
  return { inputs: ports("input"), outputs: ports("output"), steps };
}

/** The port that makes a tensor; undefined if none does. */
function maker(e: Ensemble, tensor: string): End | undefined {
  if (e.inputs.some((p) => p.name === tensor)) return { step: -1, port: tensor };
  for (const [step, s] of e.steps.entries()) {
    const made = Object.entries(s.outputs).find(([, t]) => t === tensor);
    if (made) return { step, port: made[0] };
  }
  return undefined;
}

/** All tensors that a port makes and another takes. */
export function wires(e: Ensemble): Wire[] {
  const taken = [
    ...e.steps.flatMap((s, step) => Object.entries(s.inputs).map(([port, tensor]) => ({ to: { step, port }, tensor }))),
    ...e.outputs.map((p) => ({ to: { step: -1, port: p.name }, tensor: p.name })),
  ];
  return taken.flatMap(({ to, tensor }) => {
    const from = maker(e, tensor);
    return from && !(from.step < 0 && to.step < 0) ? [{ from, to }] : [];
  });
}

/** What a port is; undefined for a new one and for those of a model that is not known. */
function portOf(e: Ensemble, models: readonly Ports[], end: End, side: "from" | "to"): Port | undefined {
  if (end.step < 0) return (side === "from" ? e.inputs : e.outputs).find((p) => p.name === end.port);
  const m = models.find((x) => x.name === e.steps[end.step]?.model);
  return (side === "from" ? m?.outputs : m?.inputs)?.find((p) => p.name === end.port);
}

const fits = (a: readonly number[], b: readonly number[]) => a.length === b.length && a.every((d, i) => d === b[i] || d < 0 || (b[i] ?? 0) < 0);

/** Why a tensor does not fit the port that takes it: their data types or their shapes differ. null: it fits. */
export function misfit(e: Ensemble, models: readonly Ports[], w: Wire): "type" | "shape" | null {
  const [a, b] = [portOf(e, models, w.from, "from"), portOf(e, models, w.to, "to")];
  if (!a || !b) return null;
  if (a.dataType !== b.dataType) return "type";
  return fits(a.shape, b.shape) ? null : "shape";
}

/** Reports whether a step needs, directly or through others, what another makes. */
function needs(e: Ensemble, step: number, other: number): boolean {
  const seen = new Set<number>();
  const todo = [step];
  for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
    if (at === other) return true;
    if (seen.has(at)) continue;
    seen.add(at);
    for (const w of wires(e)) if (w.to.step === at && w.from.step >= 0) todo.push(w.from.step);
  }
  return false;
}

/**
 * Why a wire cannot be drawn: the tensor does not fit; the steps would wait for each other (circle); an input cannot
 * be an output (straight); the tensor has the name of another output already (twice).
 */
export function refusal(e: Ensemble, models: readonly Ports[], w: Wire): "type" | "shape" | "circle" | "straight" | "twice" | null {
  if (w.from.step < 0 && w.to.step < 0) return "straight";
  if (w.from.step >= 0 && w.to.step >= 0 && needs(e, w.from.step, w.to.step)) return "circle";
  const tensor = w.from.step >= 0 ? e.steps[w.from.step]?.outputs[w.from.port] : undefined;
  if (w.to.step < 0 && tensor !== w.to.port && e.outputs.some((p) => p.name === tensor)) return "twice";
  return misfit(e, models, w);
}

/** The inputs of a step that must get a tensor and get none. */
export function open(e: Ensemble, models: readonly Ports[], step: number): string[] {
  const s = e.steps[step];
  const m = models.find((x) => x.name === s?.model);
  return (m?.inputs ?? []).filter((p) => !p.optional && maker(e, s?.inputs[p.name] ?? "") === undefined).map((p) => p.name);
}

/** The text with an entry of a step's map; null removes it. */
function withEntry(text: string, step: number, name: "input_map" | "output_map", key: string, tensor: string | null): string {
  const base = stepFields(text)[step];
  if (!base) return text;
  const entries = messages(base.fields ?? [], name);
  const n = entries.findIndex((f) => entry(f)[0] === key);
  if (tensor === null) return n < 0 ? text : withoutMessage(text, name, n, base);
  if (n >= 0) return withField(text, ["value"], JSON.stringify(tensor), entries[n]);
  return withMessage(text, name, `{ key: ${JSON.stringify(key)} value: ${JSON.stringify(tensor)} }`, base);
}

/** The text with another name for a tensor in all maps. */
function renamed(text: string, from: string, to: string): string {
  read(text).steps.forEach((s, i) => {
    for (const [key, tensor] of Object.entries(s.inputs)) if (tensor === from) text = withEntry(text, i, "input_map", key, to);
    for (const [key, tensor] of Object.entries(s.outputs)) if (tensor === from) text = withEntry(text, i, "output_map", key, to);
  });
  return text;
}

/** A name that no tensor has yet. */
function free(text: string, want: string): string {
  const e = read(text);
  const used = new Set([...e.inputs, ...e.outputs].map((p) => p.name).concat(e.steps.flatMap((s) => [...Object.values(s.inputs), ...Object.values(s.outputs)])));
  for (let n = 1; ; n++) {
    const name = n === 1 ? want : `${want}_${n}`;
    if (!used.has(name)) return name;
  }
}

/** The text with a new input or output of the ensemble for a tensor. */
function withPort(text: string, field: "input" | "output", name: string, like: Port): string {
  const batches = Number(find(parse(text), ["max_batch_size"])?.value ?? 0) > 0;
  const dims = batches ? like.shape.slice(1) : like.shape;
  const type = like.dataType === "BYTES" ? "STRING" : like.dataType;
  return withMessage(text, field, `{ name: ${JSON.stringify(name)} data_type: TYPE_${type} dims: [ ${dims.join(", ")} ] }`);
}

/** The text with a wire that refusal allows. What the taking port took before, it takes no more. */
export function connected(text: string, models: readonly Ports[], { from, to }: Wire): string {
  const e = read(text);
  let tensor = from.step < 0 ? from.port : (e.steps[from.step]?.outputs[from.port] ?? "");
  if (from.step < 0 && tensor === "") {
    const like = portOf(e, models, to, "to");
    if (!like) return text;
    tensor = free(text, to.port);
    text = withPort(text, "input", tensor, like);
  }
  if (to.step < 0 && to.port !== "") { // the tensor gets the name of the output
    const before = maker(e, to.port);
    if (before && before.step >= 0) text = renamed(text, to.port, free(text, to.port));
    if (tensor !== "") return renamed(text, tensor, to.port);
    return withEntry(text, from.step, "output_map", from.port, to.port);
  }
  if (tensor === "") {
    tensor = free(text, from.port);
    text = withEntry(text, from.step, "output_map", from.port, tensor);
  }
  if (to.step >= 0) return withEntry(text, to.step, "input_map", to.port, tensor);
  const like = portOf(e, models, from, "from");
  return like ? withPort(text, "output", tensor, like) : text;
}

/** The text without what a port takes. An output of the ensemble is then made by no step, until it is connected or removed. */
export function disconnected(text: string, to: End): string {
  if (to.step >= 0) return withEntry(text, to.step, "input_map", to.port, null);
  return renamed(text, to.port, free(text, to.port));
}

/** The text with one more step, which is not connected yet. An ensemble has no larger batches than its models. */
export function withStep(text: string, model: Pick<Model, "name" | "maxBatchSize">): string {
  const step = `{\n  model_name: ${JSON.stringify(model.name)}\n  model_version: -1\n}`;
  const most = model.maxBatchSize;
  if (most > 0 && Number(find(parse(text), ["max_batch_size"])?.value ?? 0) > most) text = withField(text, ["max_batch_size"], String(most));
  const base = find(parse(text), ["ensemble_scheduling"]);
  if (!base) return withMessage(text, "ensemble_scheduling", `{\n  step [\n    ${step.replaceAll("\n", "\n    ")}\n  ]\n}`);
  return withMessage(text, "step", step, base);
}

/** The text without a step and without what others took from it. */
export function withoutStep(text: string, step: number): string {
  const gone = wires(read(text)).filter((w) => w.from.step === step && w.to.step >= 0);
  for (const w of gone) text = withEntry(text, w.to.step, "input_map", w.to.port, null);
  return withoutMessage(text, "step", step, find(parse(text), ["ensemble_scheduling"]));
}

/** The text without an input or output of the ensemble, and without what steps took from the input. */
export function withoutPort(text: string, field: "input" | "output", name: string): string {
  const e = read(text);
  const n = (field === "input" ? e.inputs : e.outputs).findIndex((p) => p.name === name);
  if (n < 0) return text;
  for (const w of wires(e)) if (field === "input" && w.from.step < 0 && w.from.port === name) text = disconnected(text, w.to);
  return withoutMessage(text, field, n);
}

/** The configuration of an ensemble with one step, which has the inputs and outputs of its model. */
export function starting(name: string, m: Pick<Model, "name" | "inputs" | "outputs" | "maxBatchSize">): string {
  let text = withStep(`name: ${JSON.stringify(name)}\nplatform: "ensemble"\nmax_batch_size: ${m.maxBatchSize}\n`, m);
  for (const p of m.inputs) if (!p.optional) text = connected(text, [m], { from: { step: -1, port: "" }, to: { step: 0, port: p.name } });
  for (const p of m.outputs) text = connected(text, [m], { from: { step: 0, port: p.name }, to: { step: -1, port: "" } });
  return text;
}
