// What the page of the requests says about one of them, and its filters in the address.
import type { Request, RequestDetail, Requests } from "./api.gen";
import { count, us } from "./format";
import { t } from "./i18n/index.svelte";

/** The phases of a request, in the order of PhasesUs, with their colours. */
export const phases = [
  { name: "receive", colour: 8 }, { name: "check", colour: 7 }, { name: "queue", colour: 3 }, { name: "input", colour: 6 },
  { name: "compute", colour: 1 }, { name: "output", colour: 4 }, { name: "encode", colour: 5 }, { name: "send", colour: 2 },
] as const;
export type Phase = (typeof phases)[number]["name"];

const phase = (r: Request, name: Phase) => r.phasesUs[phases.findIndex((p) => p.name === name)] ?? 0;

export const shows = ["", "problems", "failed", "refused", "cancelled", "slow"] as const;
export type Show = (typeof shows)[number];

/** from and to are milliseconds since 1970; empty: no limit. */
export interface Filter { show: Show; model: string; client: string; id: string; text: string; from: string; to: string }

/** The filter in the query of an address; what is unknown or absent selects all. */
export function filterOf(query: string): Filter {
  const q = new URLSearchParams(query);
  const show = shows.find((s) => s === q.get("show")) ?? "";
  const ms = (name: string) => (/^\d{1,16}$/.test(q.get(name) ?? "") ? (q.get(name) ?? "") : "");
  return { show, from: ms("from"), to: ms("to"), model: q.get("model") ?? "", client: q.get("client") ?? "", id: q.get("id") ?? "", text: q.get("text") ?? "" };
}

/** The query of a filter; empty if it selects all. */
export function queryOf(f: Partial<Filter>): string {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(f)) if (value) q.set(key, value);
  return q.toString();
}

/**
 * Adds newer or older requests to a list. The newest are first, and each is there once. Above a number the oldest are
 * left out, in whole parts.
 */
export function merge(list: readonly Request[], more: readonly Request[], most: number): Request[] {
  const all = [...new Map([...list, ...more].map((r) => [r.id, r])).values()].sort((a, b) => b.id - a.id);
  const above = Math.max(0, all.length - most);
  return all.slice(0, all.length - Math.floor(above / partSize) * partSize);
}

/** How many older requests are read at once. */
export const atOnce = 1000;

/** Reads the newest requests with read. If one is known, all that are newer are read, up to a number. */
export async function readTo(known: number | undefined, most: number, read: (q: { before?: number; limit?: number }) => Promise<Requests>): Promise<Requests> {
  let got = await read({});
  for (;;) {
    const last = got.requests.at(-1)?.id ?? 0;
    if (known === undefined || !got.more || last <= known || got.requests.length >= most) return got;
    const { requests, more } = await read({ before: last, limit: atOnce });
    got = { ...got, requests: [...got.requests, ...requests], more };
  }
}

export const partSize = 50;

/** Splits a list into parts of partSize. The first one is the smaller one, so that the others stay when a list grows. */
export function parts<T>(list: readonly T[]): T[][] {
  const first = list.length % partSize;
  const out = first > 0 ? [list.slice(0, first)] : [];
  for (let i = first; i < list.length; i += partSize) out.push(list.slice(i, i + partSize));
  return out;
}

/** Explains in sentences where the time of a request went. */
export function explain(d: RequestDetail): string[] {
  const r = d.request;
  const out: string[] = [];
  const wait = us(phase(r, "queue"));
  const runs = phase(r, "input") + phase(r, "compute") + phase(r, "output");
  const direct = d.steps.filter((s) => s.parent === r.id);
  if (r.cached) out.push(t("requests.x.cached"));
  else if (r.instance) {
    if (r.busyUs > 0) out.push(t("requests.x.busy", { wait, busy: us(r.busyUs), instance: r.instance, rows: count(r.busyRows) }));
    else if (r.batchRequests > 1) out.push(t("requests.x.gathered", { wait, n: count(r.batchRequests) }));
    else if (phase(r, "queue") > 0.05 * r.durationUs) out.push(t("requests.x.waited", { wait, instance: r.instance }));
    if (d.aheadBatches > 0) out.push(t("requests.x.ahead", { n: count(d.aheadBatches), rows: count(d.aheadRows) }));
    const others = r.batchRequests - 1;
    const key = others > 1 ? "requests.x.with" : others === 1 ? "requests.x.withOne" : "requests.x.alone";
    out.push(t(key, { instance: r.instance, time: us(runs), n: count(others), rows: count(r.batchRows) }));
  } else if (direct.length > 0) {
    const slowest = direct.reduce((a, b) => (b.durationUs > a.durationUs ? b : a));
    out.push(t("requests.x.steps", { n: count(direct.length), model: slowest.model, time: us(slowest.durationUs) }));
  } else if (r.outcome !== "ok" && phase(r, "queue") > 0) out.push(t("requests.x.queued", { wait }));
  else if (r.outcome !== "ok") out.push(t("requests.x.notRun"));
  const read = phase(r, "receive");
  const answer = phase(r, "encode") + phase(r, "send");
  if (read + answer > 0.2 * r.durationUs && r.durationUs > 0) out.push(t("requests.x.wire", { read: us(read), answer: us(answer) }));
  if (r.slow) out.push(t("requests.x.slow"));
  return out;
}
