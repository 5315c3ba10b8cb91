// Columns for a chart: one time axis shared by several series, with gaps where nothing was recorded.
import type { Series } from "../api.gen";

export type Values = (number | null)[];

/** Times in seconds ascending, then one column per series. */
export type Frame = [number[], ...Values[]];

export type Metric = "qps" | "p50Us" | "p95Us" | "p99Us" | "queueUs" | "computeUs" | "batchMean";

export interface Track {
  tMs: readonly number[];
  values: readonly (number | null)[];
}

export const track = (s: Series, m: Metric): Track => ({ tMs: s.tMs, values: s[m] });

/** Failures per second. */
export const failing = (s: Series): Track => ({
  tMs: s.tMs,
  values: s.failures.map((n, i) => (n === 0 ? 0 : (n / (s.requests[i] || n)) * (s.qps[i] ?? 0))),
});

/** The mean number of requests that wait in the queue: by Little's law those that end per second, times how long they waited. */
export const waiting = (s: Series): Track => ({
  tMs: s.tMs,
  values: failing(s).values.map((failed, i) => (((s.qps[i] ?? 0) - (failed ?? 0)) * (s.queueUs[i] ?? 0)) / 1e6),
});

/** The sum of the tracks at each time; where no track has a value, there is none. */
export function sum(tracks: readonly Track[]): Track {
  const at = new Map<number, number>();
  for (const t of tracks) t.tMs.forEach((x, i) => {
    const v = t.values[i] ?? null;
    if (v !== null) at.set(x, (at.get(x) ?? 0) + v);
  });
  const tMs = [...at.keys()].sort((a, b) => a - b);
  return { tMs, values: tMs.map((x) => at.get(x) ?? null) };
}

/** The frame as CSV: a header, then a line for each time, in UTC. A value that is missing is empty. */
export function csv(f: Frame, labels: readonly string[]): string {
  const quoted = (s: string) => (/[",\r\n]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s);
  const [times, ...cols] = f;
  const lines = times.map((t, i) => [new Date(t * 1000).toISOString(), ...cols.map((c) => c[i] ?? "")].join(","));
  return [["time", ...labels].map(quoted).join(","), ...lines, ""].join("\r\n");
}

/** Puts tracks on one time axis. Between samples that are further apart than stepMs, every track gets a null. */
export function frame(tracks: readonly Track[], stepMs: number): Frame {
  const times = [...new Set(tracks.flatMap((t) => t.tMs))].sort((a, b) => a - b);
  const axis: number[] = [];
  times.forEach((t, i) => {
    const last = times[i - 1];
    if (last !== undefined && t - last > stepMs * 1.5) axis.push(last + stepMs);
    axis.push(t);
  });
  const cols = tracks.map((t) => {
    const at = new Map(t.tMs.map((x, i) => [x, t.values[i] ?? null] as const));
    return axis.map((x) => at.get(x) ?? null);
  });
  return [axis.map((x) => x / 1000), ...cols];
}

/** The time ranges to choose from, in milliseconds, with the step of their samples. */
export const ranges = [
  { id: "5m", ms: 5 * 60_000, step: 1000 },
  { id: "15m", ms: 15 * 60_000, step: 1000 },
  { id: "1h", ms: 3_600_000, step: 5000 },
  { id: "24h", ms: 24 * 3_600_000, step: 120_000 },
  { id: "7d", ms: 7 * 24 * 3_600_000, step: 900_000 },
] as const;
export type RangeID = (typeof ranges)[number]["id"];

/** The step for a span that was selected by dragging: about 600 points, at least one second. */
export const stepFor = (spanMs: number) => Math.max(1000, Math.ceil(spanMs / 600 / 1000) * 1000);
