// Numbers with their units, the same everywhere.

const dash = "–";

function digits(v: number): string {
  const a = Math.abs(v);
  return v.toFixed(a >= 100 || a === 0 ? 0 : a >= 10 ? 1 : 2);
}

/** A duration given in microseconds: "850 µs", "1.25 ms", "3.20 s". */
export function us(v: number | null | undefined): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return dash;
  if (Math.abs(v) < 999.5) return `${digits(v)} µs`;
  if (Math.abs(v) < 999_500) return `${digits(v / 1e3)} ms`;
  return seconds(v / 1e6);
}

/** A duration given in milliseconds. */
export const ms = (v: number | null | undefined) => us(v === null || v === undefined ? v : v * 1000);

/** A duration in seconds, in at most two units: "42 s", "3 min 5 s", "2 d 4 h". */
export function seconds(v: number): string {
  if (v < 60) return `${Number.isInteger(v) ? v : digits(v)} s`;
  const units: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([n]) => v >= n);
  const parts: string[] = [];
  let rest = Math.floor(v);
  for (const [n, name] of units.slice(first, first + 2)) {
    const k = Math.floor(rest / n);
    rest -= k * n;
    if (k > 0) parts.push(`${k} ${name}`);
  }
  return parts.join(" ");
}

/** Bytes in binary units. */
export function bytes(v: number): string {
  if (v < 1024) return `${v} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let i = -1;
  do {
    v /= 1024;
    i++;
  } while (v >= 1023.5 && i < units.length - 1);
  return `${digits(v)} ${units[i]}`;
}

/** A share as a percentage without decimals. A share that is not 0 or 1 does not look like one. */
export function percent(v: number): string {
  if (v > 0 && v < 0.01) return "< 1 %";
  if (v > 0.99 && v < 1) return "> 99 %";
  return `${Math.round(v * 100)} %`;
}

/** A rate: "0/s", "12.5/s", "43,100/s". */
export function rate(v: number | null | undefined): string {
  if (v === null || v === undefined || !Number.isFinite(v)) return dash;
  return `${v >= 1000 ? count(Math.round(v)) : digits(v)}/s`;
}

export function count(v: number): string {
  return new Intl.NumberFormat("en-US").format(v);
}

/** A shape: "[-1, 3, 224, 224]", with symbolic names where the model file has them: "[N, 3, H, W]". */
export function shape(s: readonly number[], names: readonly string[] = []): string {
  return `[${s.map((d, i) => (d < 0 && names[i] ? names[i] : String(d))).join(", ")}]`;
}

const pad = (n: number, w = 2) => String(n).padStart(w, "0");

/** A time of day in the local zone, with seconds. */
export function clock(tMs: number): string {
  const d = new Date(tMs);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** A date and time in the local zone: "2026-11-21 08:45:10". */
export function dateTime(tMs: number): string {
  const d = new Date(tMs);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(tMs)}`;
}

/** A short time: the clock for today, otherwise date and minute. */
export function when(tMs: number, nowMs = Date.now()): string {
  const full = dateTime(tMs);
  return full.slice(0, 10) === dateTime(nowMs).slice(0, 10) ? full.slice(11) : full.slice(0, 16);
}

/** A value of a tensor with at most 6 significant digits. */
export function num(v: number): string {
  if (Number.isInteger(v) && Math.abs(v) < 1e15) return String(v);
  return String(Number(v.toPrecision(6)));
}
