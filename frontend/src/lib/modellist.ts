// The order of the list of models.
import type { Model } from "./api.gen";
import { live } from "./live.svelte";
import { summary, type Summary } from "./recent";

export const sorts = ["name", "state", "qps", "p99", "failures", "memory"] as const;
export type Sort = (typeof sorts)[number];

const figures: Record<Exclude<Sort, "name" | "state">, (m: Model, s: Summary) => number> = {
  qps: (_, s) => s.spark.reduce((a, b) => a + b, 0), // of the minute, which is steadier than of some seconds
  p99: (_, s) => s.p99Us ?? -1,
  failures: (_, s) => s.failures,
  memory: (m) => (m.resident ? m.memoryBytes + m.gpuBytes : 0),
};

/** The models in an order: the largest figure first, else by name. models is by name already. */
export function sorted(models: readonly Model[], by: Sort, nowMs: number): readonly Model[] {
  if (by === "name") return models;
  if (by === "state") return [...models].sort((a, b) => a.state.localeCompare(b.state));
  const figure = figures[by];
  const of = new Map(models.map((m) => [m, figure(m, summary(m, (v) => live.ring(m.name, v.version), nowMs))] as const));
  return [...models].sort((a, b) => (of.get(b) ?? 0) - (of.get(a) ?? 0));
}
