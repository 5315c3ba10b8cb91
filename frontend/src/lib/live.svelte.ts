// The stream of live data (GET /api/events), and the data that the page keeps.
import type * as api from "./api.gen";
import { base, client } from "./api";
import { frameworks } from "./frameworks.svelte";
import { SampleRing } from "./ring";

/** Seconds of samples kept for each model version. */
export const ringSeconds = 300;
const maxEvents = 200;
const maxImports = 20;

/** The key of a model version in Live.rings. */
export const versionKey = (model: string, version: string) => `${model}\n${version}`;

class Live {
  /** lost: the connection was open before. */
  status = $state<"connecting" | "open" | "lost">("connecting");
  models = $state.raw<api.Model[] | null>(null);
  machine = $state.raw<api.Machine | null>(null);
  events = $state.raw<api.Event[]>([]);
  /** The newest state of each import in the stream. */
  imports = $state.raw<Record<string, api.Import>>({});
  /** The time of the newest samples. It changes once a second. */
  nowMs = $state(0);
  readonly rings = new Map<string, SampleRing>();
  private source: EventSource | null = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private wait = 1000;

  /** Opens the stream, and opens it again after a failure until stop is called. */
  start(): void {
    this.stop();
    const s = new EventSource(base() + "/api/events");
    this.source = s;
    s.onopen = () => {
      this.status = "open";
      this.wait = 1000;
    };
    s.onerror = () => {
      if (this.status === "open" || this.models) this.status = "lost";
      if (s.readyState !== EventSource.CLOSED) return; // the browser reconnects
      client.server().catch(() => undefined); // notices that the server does not let this browser in any more
      this.retry = setTimeout(() => this.start(), this.wait);
      this.wait = Math.min(this.wait * 2, 10_000);
    };
    const on = <T>(topic: string, f: (v: T) => void) =>
      s.addEventListener(topic, (e: MessageEvent<string>) => f(JSON.parse(e.data) as T));
    on<api.ModelsEvent>("models", (v) => this.onModels(v));
    on<api.SamplesEvent>("samples", (v) => this.onSamples(v));
    on<api.Event>("event", (v) => (this.events = [v, ...this.events].slice(0, maxEvents)));
    on<api.Machine>("machine", (v) => (this.machine = v));
    on<api.Framework>("framework", (v) => frameworks.put(v));
    on<api.Import>("import", (v) => this.setImport(v));
  }

  stop(): void {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  model(name: string): api.Model | undefined {
    return this.models?.find((m) => m.name === name);
  }

  /** Stores the model from an answer, unless the stream is open: the stream may be newer than the answer. */
  put(m: api.Model): void {
    if (this.status === "open") return;
    this.onModels({ full: false, models: [m], removed: [] });
  }

  /** Stores the state of an import, and keeps only the last few imports. */
  setImport(v: api.Import): void {
    const { [v.id]: _, ...others } = this.imports;
    this.imports = Object.fromEntries([...Object.entries(others).slice(-maxImports), [v.id, v]]);
  }

  ring(model: string, version: string): SampleRing | undefined {
    return this.rings.get(versionKey(model, version));
  }

  private onModels(v: api.ModelsEvent): void {
    this.models = merge(this.models ?? [], v);
    const alive = new Set(this.models.flatMap((m) => m.versions.map((x) => versionKey(m.name, x.version))));
    for (const k of this.rings.keys()) if (!alive.has(k)) this.rings.delete(k);
    if (v.full) for (const m of this.models) for (const x of m.versions) this.seed(m.name, x);
  }

  /** Fills a new ring with the requests of the last minute, so that a new page shows data. */
  private seed(model: string, v: api.Version): void {
    const key = versionKey(model, v.version);
    const counts = v.lastMinute.spark;
    if (this.rings.has(key) || counts.length === 0) return;
    const ring = new SampleRing(ringSeconds);
    const end = Math.floor(Date.now() / 1000) * 1000; // the times of samples are whole seconds
    const nothing = { failures: 0, p50Us: null, p95Us: null, p99Us: null, queueUs: null, computeUs: null, batchMean: null };
    counts.forEach((requests, i) => ring.push(end - (counts.length - i) * 1000, { ...nothing, requests }));
    this.rings.set(key, ring);
  }

  private onSamples(v: api.SamplesEvent): void {
    for (const s of v.samples) {
      const k = versionKey(s.model, s.version);
      let r = this.rings.get(k);
      if (!r) this.rings.set(k, (r = new SampleRing(ringSeconds)));
      r.push(v.tMs, s);
    }
    this.nowMs = v.tMs;
  }
}

/** The list after a models event, sorted by name. */
export function merge(old: api.Model[], e: api.ModelsEvent): api.Model[] {
  const byName = new Map(e.full ? [] : old.map((m) => [m.name, m] as const));
  for (const name of e.removed) byName.delete(name);
  for (const m of e.models) byName.set(m.name, m);
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

export const live = new Live();
