// Texts and scales for a tuning.
import type { Machine, StartTuning, TuningAxis, TuningChange, TuningHead, TuningTrial } from "./api.gen";
import { bytes, count, rate, us } from "./format";
import { t } from "./i18n/index.svelte";

/** A value of an axis as text. */
function valueText(field: string, v: number): string {
  switch (field) {
    case "max_queue_delay":
      return v < 0 ? t("tune.noBatching") : t("tune.delay", { n: count(v) });
    case "instance_kind":
      return v === 1 ? "KIND_GPU" : "KIND_CPU";
    case "intra_op_threads":
      return v === 0 ? t("tune.allCores") : count(v);
    default:
      return count(v);
  }
}

const names = {
  max_batch_size: "tune.field.max_batch_size",
  max_queue_delay: "tune.field.max_queue_delay",
  instance_count: "tune.field.instance_count",
  instance_kind: "tune.field.instance_kind",
  intra_op_threads: "tune.field.intra_op_threads",
  load: "tune.field.load",
} as const;

/** The name of an axis, with the name of the model if it is another one. */
export function fieldText(field: string, of = "", model = ""): string {
  const key = names[field as keyof typeof names];
  const name = key ? t(key) : field;
  return of !== "" && of !== model ? `${of}: ${name}` : name;
}

/** The changes of a configuration: "instances 1 → 2, threads all cores → 1". */
export function changesText(changes: readonly TuningChange[], model: string): string {
  if (changes.length === 0) return t("tune.present");
  return changes.map((c) => `${fieldText(c.field, c.model, model)} ${valueText(c.field, c.from)} → ${valueText(c.field, c.to)}`).join(", ");
}

/** The values of an axis with the present one marked: "1, 2 (now), 4". */
export function axisText(a: TuningAxis): string {
  return a.values.map((v) => valueText(a.field, v) + (v === a.present && a.field !== "load" ? ` (${t("tune.now")})` : "")).join(", ");
}

/** The change of a figure: "+32 %"; empty if it is unknown. */
export function ratio(to: number, from: number): string {
  if (!(from > 0) || !Number.isFinite(to)) return "";
  const percent = Math.round(100 * (to / from - 1));
  return percent === 0 ? "±0 %" : `${percent > 0 ? "+" : "−"}${count(Math.abs(percent))} %`;
}

/** From which gain on a change is suggested: less may be noise. */
export const worth = 1.1;

/** How many times as many rows per second a trial has; 0 if that is unknown. */
export const gain = (x: TuningTrial, was: TuningTrial | null): number => (was && x.failed === "" && was.rate > 0 ? x.rate / was.rate : 0);

/** The goal of a tuning in one line. */
export function goalText(r: StartTuning): string {
  const words = [r.objective === "latency" ? t("tune.goal.latency") : r.objective === "" || r.objective === "throughput" ? t("tune.goal.throughput") : r.objective];
  if (r.latencyBudgetMs > 0) words.push(t("tune.goal.budget", { n: r.latencyBudgetMs }));
  if (r.with.length > 0) words.push(t("tune.goal.with", { models: r.with.join(", ") }));
  if (r.minThroughput > 0) words.push(t("tune.goal.rate", { n: r.minThroughput }));
  if (r.maxMemoryMb > 0) words.push(t("tune.goal.memory", { n: r.maxMemoryMb }));
  if (r.maxGpuMemoryMb > 0) words.push(t("tune.goal.gpuMemory", { n: r.maxGpuMemoryMb }));
  return words.join(", ");
}

/** The result of a tuning in one line. */
export function resultText(h: TuningHead): string {
  if (!h.best) return t(h.present || h.measured > 0 ? "tune.result.none" : "tune.result.nothing");
  if (h.bestChanges.length === 0) return t("tune.result.present");
  if (!h.present) return changesText(h.bestChanges, h.model);
  return t("tune.result.best", { rate: ratio(h.best.rate, h.present.rate), p99: ratio(h.best.p99Us, h.present.p99Us) });
}

/** A figure for goals and for the axes of charts. */
export interface Figure {
  id: "rate" | "p99" | "p50" | "memory" | "cores" | "gpuUse" | "gpuMemory" | "gpuPower" | "density";
  name: string;
  of: (x: TuningTrial) => number;
  text: (v: number) => string;
}

const mib = 1 << 20; // so that ticks are round numbers of MiB

/** The available figures. GPU figures need trials with a GPU; the number of servers that fit needs the size of the machine. */
export function figures(trials: readonly TuningTrial[], machine: Machine | null): Figure[] {
  const out: Figure[] = [
    { id: "rate", name: t("load.rate"), of: (x) => x.rate, text: rate },
    { id: "p99", name: t("tune.p99"), of: (x) => x.p99Us, text: us },
    { id: "p50", name: t("tune.p50"), of: (x) => x.p50Us, text: us },
    { id: "memory", name: t("models.memory"), of: (x) => x.memoryBytes / mib, text: (v) => bytes(v * mib) },
    { id: "cores", name: t("tune.cpu"), of: (x) => x.cores, text: (v) => t("tune.cores", { n: v.toFixed(1) }) },
  ];
  if (trials.some((x) => x.gpuMemoryBytes > 0)) {
    out.push(
      { id: "gpuUse", name: t("tune.gpuUse"), of: (x) => x.gpuUtilization, text: (v) => `${Math.round(v)} %` },
      { id: "gpuMemory", name: t("tune.gpuMemory"), of: (x) => x.gpuMemoryBytes / mib, text: (v) => bytes(v * mib) },
      { id: "gpuPower", name: t("tune.gpuPower"), of: (x) => x.gpuPowerW, text: (v) => `${v.toFixed(0)} W` },
    );
  }
  if (machine && machine.memoryBytes > 0) out.push({ id: "density", name: t("tune.density"), of: (x) => density(x, machine), text: (v) => `${count(Math.round(v * 10) / 10)} ×` });
  return out;
}

/** The number of servers with this configuration that fit into the main memory of the machine. The memory of GPUs does not count: what is measured there includes other programs. */
export function density(x: TuningTrial, m: Machine): number {
  return x.memoryBytes > 0 ? Math.floor(m.memoryBytes / x.memoryBytes) : 0;
}

/** A scale from values to pixels with its ticks; logarithmic where values differ much. */
export interface Scale {
  at: (v: number) => number;
  ticks: number[];
}

/** From 0 to max. */
export function linear(max: number, from: number, to: number): Scale {
  const step = niceStep(max / 4);
  const top = Math.max(step, Math.ceil(max / step - 1e-9) * step);
  const ticks: number[] = [];
  for (let i = 0; i * step <= top * (1 + 1e-9); i++) ticks.push(i * step);
  return { at: (v) => from + (v / top) * (to - from), ticks };
}

/** From min to max, both above 0: logarithmic if max is more than ten times min, otherwise from 0. */
export function spread(min: number, max: number, from: number, to: number): Scale {
  if (!(min > 0) || max / min < 10) return linear(max, from, to);
  const low = Math.log10(min) - 0.05;
  const high = Math.log10(max) + 0.05;
  const ticks: number[] = [];
  for (let e = Math.floor(low); e <= Math.ceil(high); e++) {
    for (const m of high - low > 2 ? [1] : [1, 3]) {
      const v = m * 10 ** e;
      if (Math.log10(v) >= low && Math.log10(v) <= high) ticks.push(v);
    }
  }
  return { at: (v) => from + ((Math.log10(Math.max(v, Number.MIN_VALUE)) - low) / (high - low)) * (to - from), ticks };
}

function niceStep(v: number): number {
  if (!(v > 0)) return 1;
  const e = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((m) => m * e).find((s) => s >= v * (1 - 1e-9)) ?? 10 * e;
}

export type Order = "measured" | "rate" | "p99";

/** Trials with their numbers, sorted; failed trials come last. */
export function ordered(trials: readonly TuningTrial[], by: Order): { n: number; trial: TuningTrial }[] {
  const rows = trials.map((trial, n) => ({ n, trial }));
  if (by === "measured") return rows.reverse();
  const key = (x: TuningTrial) => (x.failed !== "" ? Infinity : by === "rate" ? -x.rate : x.p99Us);
  return rows.sort((a, b) => key(a.trial) - key(b.trial) || a.n - b.n);
}
