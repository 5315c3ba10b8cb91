// The last minute of a model, from live samples, or from the summary of the server.
import type { Model, Version } from "./api.gen";
import type { SampleRing } from "./ring";

export interface Summary {
  /** Mean over the last 5 seconds. */
  qps: number;
  spark: number[];
  p50Us: number | null;
  p99Us: number | null;
  failures: number;
}

const seconds = 60;

/** Summarises all versions of a model: rates add up; the latencies are those of the version with most requests. */
export function summary(m: Model, ringOf: (v: Version) => SampleRing | undefined, nowMs: number): Summary {
  const out: Summary = { qps: 0, spark: new Array<number>(seconds).fill(0), p50Us: null, p99Us: null, failures: 0 };
  let most = -1;
  for (const v of m.versions) {
    const s = version(v, ringOf(v), nowMs);
    out.qps += s.qps;
    out.failures += s.failures;
    s.spark.forEach((x, i) => (out.spark[i] = (out.spark[i] ?? 0) + x));
    const total = s.spark.reduce((a, b) => a + b, 0);
    if (total <= most) continue;
    most = total;
    out.p50Us = s.p50Us;
    out.p99Us = s.p99Us;
  }
  return out;
}

function version(v: Version, ring: SampleRing | undefined, nowMs: number): Summary {
  const r = v.lastMinute;
  if (!ring || ring.length === 0) {
    const spark = [...new Array<number>(Math.max(0, seconds - r.spark.length)).fill(0), ...r.spark.slice(-seconds)];
    return { qps: r.qps, spark, p50Us: r.p50Us, p99Us: r.p99Us, failures: r.failures };
  }
  const from = nowMs - seconds * 1000;
  const spark = ring.spark(nowMs, seconds);
  let failures = 0;
  ring.each(from, (_, get) => (failures += get("failures") ?? 0));
  const recent = spark.slice(-5).reduce((a, b) => a + b, 0) / 5;
  // Use the figures of the server while the ring has only counts from before the page was opened.
  const busy = spark.some((x) => x > 0);
  const latest = (c: "p50Us" | "p99Us") => ring.latest(c, from) ?? (busy ? r[c] : null);
  return { qps: recent, spark, p50Us: latest("p50Us"), p99Us: latest("p99Us"), failures };
}
