// The order of the list of models.
import type { Model } from "./api.gen";
import { live } from "./live.svelte";
import { summary, type Summary } from "./recent";

export const sorts = ["name", "state", "qps", "p99", "failures", "memory"] as const;
export type Sort = (typeof sorts)[number];

const numbers: Record<Exclude<Sort, "name" | "state">, (m: Model, s: Summary) => number> = {
  qps: (_, s) => s.spark.reduce((a, b) => a + b, 0), // requests of the last minute: qps changes too much from second to second
  p99: (_, s) => s.p99Us ?? -1,
  failures: (_, s) => s.failures,
  memory: (m) => (m.resident ? m.memoryBytes + m.gpuBytes : 0),
};

/** Sorts models, which are given by name: by state in alphabetical order, by a number from the largest. */
export function sorted(models: readonly Model[], by: Sort, nowMs: number): readonly Model[] {
  if (by === "name") return models;
  if (by === "state") return [...models].sort((a, b) => a.state.localeCompare(b.state));
  const number = numbers[by];
  const values = new Map(models.map((m) => [m, number(m, summary(m, (v) => live.ring(m.name, v.version), nowMs))] as const));
  return [...models].sort((a, b) => (values.get(b) ?? 0) - (values.get(a) ?? 0));
}
