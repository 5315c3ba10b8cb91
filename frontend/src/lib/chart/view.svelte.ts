// The time window that charts show, and its data: history from the server, the newest seconds from the stream.
import { onDestroy, untrack } from "svelte";
import type { Events, History, Series } from "../api.gen";
import { client } from "../api";
import { serverNow } from "../clock";
import { live, versionKey } from "../live.svelte";
import { Loaded } from "../load.svelte";
import { columns, type SampleRing } from "../ring";
import { router } from "../router.svelte";
import { ranges, stepFor, type RangeID } from "./frame";

/** Kinds of events that are marked on the time axis. */
const marked = /^(load|reload|unload|import|config|server|model)/;

export class ChartView {
  /** null: a range that was selected by dragging. */
  rangeID = $state<RangeID | null>("5m");
  /** The charts have logarithmic axes. */
  log = $state(false);
  private fixed = $state.raw({ fromMs: 0, toMs: 0 });
  private nowMs = $state(serverNow());
  readonly history = new Loaded<History>();
  readonly events = new Loaded<Events>();
  private fetchedMs = 0;

  private only = "";

  /** model "": all models. most: how many of them are fetched for a range that is not live; 0 is all. */
  constructor(private readonly model: string, private readonly most = 0) {}

  /** The model whose series are fetched, of a view of all models; "" is all. */
  filter(model: string): void {
    if (this.only === model) return;
    this.only = model;
    if (this.fetchedMs !== 0) this.refresh();
  }

  private get range() {
    return ranges.find((r) => r.id === this.rangeID);
  }
  get fromMs(): number {
    return this.range ? this.nowMs - this.range.ms : this.fixed.fromMs;
  }
  get toMs(): number {
    return this.range ? this.nowMs : this.fixed.toMs;
  }

  /** Changes with every other choice of a time. */
  get choice(): string {
    return this.rangeID ?? `${this.fixed.fromMs}-${this.fixed.toMs}`;
  }

  pick(id: RangeID): void {
    this.rangeID = id;
    this.toAddress();
    this.refresh();
  }

  setLog(on: boolean): void {
    this.log = on;
    this.toAddress();
  }

  private toAddress(): void {
    const { fromMs, toMs } = this.fixed;
    const live = this.rangeID !== null;
    router.setQuery({
      range: live && this.rangeID !== "5m" ? this.rangeID! : "", from: live ? "" : String(fromMs), to: live ? "" : String(toMs),
      log: this.log ? "1" : "",
    });
  }

  /** Takes range, from, to and log of the address; what is absent or wrong is the default. */
  fromAddress(): void {
    const q = router.query;
    const [from, to] = [Number(q.get("from")), Number(q.get("to"))];
    const before = this.choice;
    this.log = q.get("log") === "1";
    if (from > 0 && to > from) {
      this.rangeID = null;
      this.fixed = { fromMs: Math.floor(from), toMs: Math.ceil(to) };
    } else this.rangeID = ranges.find((r) => r.id === q.get("range"))?.id ?? "5m";
    if (this.fetchedMs === 0 || this.choice !== before) this.refresh();
  }

  zoom(fromMs: number, toMs: number): void {
    this.rangeID = null;
    this.fixed = { fromMs: Math.floor(fromMs), toMs: Math.ceil(toMs) };
    this.toAddress();
    this.refresh();
  }

  /** Doubles the range around its middle, but not into the future. */
  zoomOut(): void {
    const span = this.toMs - this.fromMs;
    const to = Math.min(serverNow(), this.toMs + span / 2);
    this.zoom(to - span * 2, to);
  }

  refresh(): void {
    if (this.range) this.nowMs = serverNow();
    this.fetchedMs = Date.now();
    const window = { model: this.model, from: Math.floor(this.fromMs), to: Math.ceil(this.toMs) };
    const step = this.range?.step ?? stepFor(this.toMs - this.fromMs);
    const busiest = this.most > 0 && (!this.range || step > 1000) ? { model: this.only, most: this.most } : {};
    void this.history.run((s) => client.history({ ...window, ...busiest, step }, s));
    void this.events.run((s) => client.events({ ...window, limit: 200 }, s));
  }

  /** Moves the range with the stream. Long ranges are fetched again from time to time. */
  tick(nowMs: number): void {
    const r = this.range;
    if (!r || nowMs === 0) return;
    const jumped = Math.abs(nowMs + 1000 - this.nowMs) > 5000; // the server's time was not known, or the stream was cut
    this.nowMs = nowMs + 1000;
    if (jumped || (r.step > 1000 && Date.now() - this.fetchedMs > Math.max(r.step, 10_000))) this.refresh();
  }

  get stepMs(): number {
    return this.history.value?.stepMs ?? 1000;
  }

  /** The series, with the live seconds after them. */
  get series(): Series[] {
    void live.nowMs;
    const h = this.history.value;
    if (!h) return [];
    if (h.stepMs > 1000 || h.total || !this.range) return h.series;
    const out = h.series.map((s) => extend(s, live.ring(s.model, s.version), this.fromMs));
    const have = new Set(out.map((s) => versionKey(s.model, s.version)));
    for (const [key, ring] of live.rings) {
      const [model = "", version = ""] = key.split("\n");
      if (have.has(key) || (this.model !== "" && model !== this.model)) continue;
      out.push(extend(empty(model, version), ring, this.fromMs));
    }
    return out;
  }

  get marks() {
    const fresh = live.events.filter((e) => this.model === "" || e.model === this.model || e.model === "");
    const byID = new Map([...(this.events.value?.events ?? []), ...fresh].map((e) => [e.id, e] as const));
    return [...byID.values()].filter((e) => marked.test(e.kind) && e.tMs >= this.fromMs && e.tMs <= this.toMs).sort((a, b) => b.tMs - a.tMs);
  }
}

const empty = (model: string, version: string): Series => ({
  model, version, tMs: [], requests: [], failures: [], qps: [], p50Us: [], p95Us: [], p99Us: [], queueUs: [], computeUs: [], batchMean: [],
});

/** The series extended by later seconds of the ring, without samples before fromMs. */
export function extend(s: Series, ring: SampleRing | undefined, fromMs: number): Series {
  const keep = s.tMs.findIndex((x) => x >= fromMs);
  const cut = <T>(v: readonly T[]) => (keep < 0 ? [] : v.slice(keep));
  const out: Series = {
    ...s, tMs: cut(s.tMs), requests: cut(s.requests), failures: cut(s.failures), qps: cut(s.qps), p50Us: cut(s.p50Us), p95Us: cut(s.p95Us),
    p99Us: cut(s.p99Us), queueUs: cut(s.queueUs), computeUs: cut(s.computeUs), batchMean: cut(s.batchMean),
  };
  ring?.each(Math.max(fromMs, s.tMs.at(-1) ?? 0), (tMs, get) => {
    out.tMs.push(tMs);
    out.qps.push(get("requests") ?? 0);
    for (const c of columns) {
      if (c === "minuteP50Us" || c === "minuteP99Us") continue; // not of this second
      if (c === "requests" || c === "failures") out[c].push(get(c) ?? 0);
      else out[c].push(get(c));
    }
  });
  return out;
}

/** A view for a component: it follows the address and the stream, and ends with the component. */
export function chartView(model: string, most = 0): ChartView {
  const view = new ChartView(model, most);
  onDestroy(() => (view.history.cancel(), view.events.cancel()));
  $effect.pre(() => {
    void router.route;
    untrack(() => view.fromAddress());
  });
  $effect(() => {
    const now = live.nowMs;
    untrack(() => view.tick(now));
  });
  return view;
}
