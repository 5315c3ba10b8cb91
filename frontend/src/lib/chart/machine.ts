// Readings of the machine as columns of charts: recorded minutes, and the newest seconds of the stream after them.
import type { Machine, Reading } from "../api.gen";
import type { Track } from "./frame";

/** How long readings of the stream are kept. */
const keepMs = 15 * 60_000;

/** The readings with one more of the stream, without those that are too old. */
export function liveReadings(before: readonly Reading[], m: Machine): Reading[] {
  const now = new Map<string, number>();
  if (m.cpuBusy !== null) now.set("cpu", m.cpuBusy);
  if (m.memoryBytes > 0) now.set("memory", m.memoryBytes - m.memoryFreeBytes);
  for (const g of m.gpus) {
    if (g.utilization !== null) now.set(`gpu${g.index}`, g.utilization);
    if (g.usedBytes !== null) now.set(`gpu_memory${g.index}`, g.usedBytes);
  }
  const old = new Map(before.map((r) => [r.name, r] as const));
  return [...now].map(([name, v]) => {
    const r = old.get(name);
    const from = r ? r.tMs.findIndex((t) => t >= m.tMs - keepMs) : -1;
    if (!r || from < 0) return { name, tMs: [m.tMs], mean: [v], most: [v] };
    if (r.tMs.at(-1)! >= m.tMs) return r;
    return { name, tMs: [...r.tMs.slice(from), m.tMs], mean: [...r.mean.slice(from), v], most: [...r.most.slice(from), v] };
  });
}

/** The means and the highest values by name: those that are recorded, and the fresh ones that are later. */
export function toTracks(recorded: readonly Reading[], fresh: readonly Reading[], fromMs: number): { mean: Map<string, Track>; most: Map<string, Track> } {
  const mean = new Map<string, Track>();
  const most = new Map<string, Track>();
  const names = new Set([...recorded, ...fresh].map((r) => r.name));
  for (const name of names) {
    const r = recorded.find((x) => x.name === name);
    const f = fresh.find((x) => x.name === name);
    // A recorded minute begins at its time.
    const after = Math.max(fromMs, (r?.tMs.at(-1) ?? -60_000) + 60_000);
    const at = (f?.tMs ?? []).findIndex((t) => t >= after);
    const join = (a: readonly number[] = [], b: readonly number[] = []) => [...a, ...(at < 0 ? [] : b.slice(at))];
    const tMs = join(r?.tMs, f?.tMs);
    mean.set(name, { tMs, values: join(r?.mean, f?.mean) });
    most.set(name, { tMs, values: join(r?.most, f?.most) });
  }
  return { mean, most };
}
