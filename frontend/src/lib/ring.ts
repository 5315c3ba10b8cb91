// A bounded ring of one-second samples, in typed arrays to save memory.
import type { Sample } from "./api.gen";

/** The columns of a ring; null values are kept as NaN. */
export const columns = ["requests", "failures", "p50Us", "p95Us", "p99Us", "queueUs", "computeUs", "batchMean", "minuteP50Us", "minuteP99Us"] as const;
export type Column = (typeof columns)[number];

export class SampleRing {
  private readonly t: Float64Array;
  private readonly cols: Record<Column, Float64Array>;
  private start = 0;
  private n = 0;

  /** capacity is the number of seconds that are kept. */
  constructor(readonly capacity: number) {
    const make = () => new Float64Array(capacity);
    this.t = make();
    this.cols = Object.fromEntries(columns.map((c) => [c, make()])) as Record<Column, Float64Array>;
  }

  get length(): number {
    return this.n;
  }

  /** Adds a second. It ignores seconds that are not newer than the last one, because a reconnect may repeat them. */
  push(tMs: number, s: Pick<Sample, Column>): void {
    if (this.n > 0 && tMs <= this.newestMs()) return;
    const i = (this.start + this.n) % this.capacity;
    this.t[i] = tMs;
    for (const c of columns) this.cols[c][i] = s[c] ?? NaN;
    if (this.n < this.capacity) this.n++;
    else this.start = (this.start + 1) % this.capacity;
  }

  newestMs(): number {
    return this.n === 0 ? -Infinity : (this.t[(this.start + this.n - 1) % this.capacity] ?? -Infinity);
  }

  /** Calls f for every sample later than afterMs, oldest first. */
  each(afterMs: number, f: (tMs: number, get: (c: Column) => number | null) => void): void {
    for (let k = 0; k < this.n; k++) {
      const i = (this.start + k) % this.capacity;
      const t = this.t[i] ?? 0;
      if (t <= afterMs) continue;
      f(t, (c) => {
        const v = this.cols[c][i] ?? NaN;
        return Number.isNaN(v) ? null : v;
      });
    }
  }

  /** A count of each of the seconds (nowMs-seconds*1000, nowMs], oldest first; 0 where there is no sample. */
  spark(nowMs: number, seconds: number, c: "requests" | "failures" = "requests"): number[] {
    const out = new Array<number>(seconds).fill(0);
    const from = nowMs - seconds * 1000;
    this.each(from, (t, get) => {
      const i = Math.floor((t - from - 1) / 1000);
      if (i >= 0 && i < seconds) out[i] = (out[i] ?? 0) + (get(c) ?? 0);
    });
    return out;
  }

  /** A column of the newest second; null without one that is later than afterMs. */
  newest(c: Column, afterMs: number): number | null {
    let v: number | null = null;
    if (this.newestMs() > afterMs) this.each(this.newestMs() - 1, (_, get) => (v = get(c)));
    return v;
  }
}
