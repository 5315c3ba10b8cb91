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
  /** The share of requests that failed; 0 without requests. */
  failed: number;
}

const seconds = 60;

/** Summarises all versions of a model: rates add up; the latencies are those of the version with most requests. */
export function summary(m: Model, ringOf: (v: Version) => SampleRing | undefined, nowMs: number): Summary {
  const out: Summary = { qps: 0, spark: new Array<number>(seconds).fill(0), p50Us: null, p99Us: null, failures: 0, failed: 0 };
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
  out.failed = out.failures / Math.max(1, out.spark.reduce((a, b) => a + b, 0));
  return out;
}

function version(v: Version, ring: SampleRing | undefined, nowMs: number): Omit<Summary, "failed"> {
  const r = v.lastMinute;
  if (!ring || ring.length === 0) {
    const spark = [...new Array<number>(Math.max(0, seconds - r.spark.length)).fill(0), ...r.spark.slice(-seconds)];
    return { qps: r.qps, spark, p50Us: r.p50Us, p99Us: r.p99Us, failures: r.failures };
  }
  const spark = ring.spark(nowMs, seconds);
  const from = nowMs - seconds * 1000;
  return {
    qps: spark.slice(-5).reduce((a, b) => a + b, 0) / 5,
    spark,
    p50Us: ring.newest("minuteP50Us", from),
    p99Us: ring.newest("minuteP99Us", from),
    failures: ring.spark(nowMs, seconds, "failures").reduce((a, b) => a + b, 0),
  };
}
