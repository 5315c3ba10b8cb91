// The data that the page keeps of the stream of live data (feed.ts).
import type * as api from "./api.gen";
import { alerts } from "./alerts.svelte";
import { base, client } from "./api";
import { noteServerTime } from "./clock";
import { join, merge, type FeedMessage, type FeedStatus, type Joined, type Watch } from "./feed";
import { frameworks } from "./frameworks.svelte";
import { SampleRing, type Column } from "./ring";

/** Seconds of samples kept for each model version. */
const ringSeconds = 300;
const maxEvents = 200;
const maxImports = 20;

/** A second without requests. */
const idle: Pick<api.Sample, Column> = {
  requests: 0, failures: 0, p50Us: null, p95Us: null, p99Us: null, queueUs: null, computeUs: null, batchMean: null,
  minuteP50Us: null, minuteP99Us: null,
};

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
  /** Requests that were refused in the last minute. */
  refusedMinute = $state(0);
  readonly rings = new Map<string, SampleRing>();
  private joined: Joined | null = null;
  private watcher: ((e: api.RequestsEvent | null) => void) | null = null;

  constructor() {
    // A page that the browser keeps for its back button must not keep the stream.
    addEventListener("pagehide", () => this.stop());
    addEventListener("pageshow", (e) => {
      if (e.persisted) this.start();
    });
  }

  /** Follows the stream of the browser, also after failures, until stop is called. */
  start(): void {
    this.stop();
    this.joined = join(base(), (messages) => {
      for (const m of messages) this.receive(m);
    });
    this.watcher?.(null); // the page came back from the back button's cache
  }

  stop(): void {
    this.joined?.leave();
    this.joined = null;
  }

  /**
   * Follows requests as they end, until the result is called. null says that they do not come any more: the page reads
   * the list, and watches again. One view watches at a time.
   */
  watch(w: Watch, received: (e: api.RequestsEvent | null) => void): () => void {
    this.watcher = received;
    this.joined?.watch(w);
    return () => {
      if (this.watcher !== received) return;
      this.watcher = null;
      this.joined?.watch(null);
    };
  }

  private receive(m: FeedMessage): void {
    if (!("data" in m)) return m.topic === "unwatched" ? this.watcher?.(null) : this.onStatus(m.topic);
    const v: unknown = JSON.parse(m.data);
    switch (m.topic) {
      case "models": return this.onModels(v as api.ModelsEvent, m.atMs);
      case "samples": return this.onSamples(v as api.SamplesEvent);
      case "requests": return this.watcher?.(v as api.RequestsEvent);
      case "event": return this.onEvent(v as api.Event);
      case "machine": this.machine = v as api.Machine; return;
      case "framework": return frameworks.put(v as api.Framework);
      case "import": return this.setImport(v as api.Import);
    }
  }

  private onEvent(e: api.Event): void {
    this.events = [e, ...this.events].slice(0, maxEvents);
    if (e.kind === "alert" || e.kind === "alert_ended") void alerts.refresh();
  }

  private onStatus(s: FeedStatus): void {
    if (s === "open") {
      this.status = s;
      void alerts.refresh();
    }
    else if (this.status === "open" || this.models) this.status = "lost";
    if (s === "refused") client.server().catch(() => undefined); // notices that the server does not let this browser in any more
  }

  model(name: string): api.Model | undefined {
    return this.models?.find((m) => m.name === name);
  }

  /** Stores the model from an answer, unless the stream is open: the stream may be newer than the answer. */
  put(m: api.Model): void {
    if (this.status === "open") return;
    this.onModels({ tMs: 0, full: false, models: [m], removed: [] });
  }

  /** Stores the state of an import, and keeps only the last few imports. */
  setImport(v: api.Import): void {
    const { [v.id]: _, ...others } = this.imports;
    this.imports = Object.fromEntries([...Object.entries(others).slice(-maxImports), [v.id, v]]);
  }

  ring(model: string, version: string): SampleRing | undefined {
    return this.rings.get(versionKey(model, version));
  }

  /** atMs is when the event arrived; without it, it is no event of the stream. */
  private onModels(v: api.ModelsEvent, atMs?: number): void {
    if (atMs !== undefined) noteServerTime(v.tMs, atMs);
    this.models = merge(this.models ?? [], v);
    const alive = new Set(this.models.flatMap((m) => m.versions.map((x) => versionKey(m.name, x.version))));
    for (const k of this.rings.keys()) if (!alive.has(k)) this.rings.delete(k);
    for (const m of v.models) for (const x of m.versions) this.seed(m.name, x);
  }

  /** Adds the seconds of the last minute that its ring does not have: all to a new page, some after a lost stream. */
  private seed(model: string, v: api.Version): void {
    const key = versionKey(model, v.version);
    const { spark: counts, failureSpark, p50Us, p99Us, endMs } = v.lastMinute;
    if (counts.length === 0 || endMs === 0) return;
    const ring = this.rings.get(key) ?? new SampleRing(ringSeconds);
    const minute = { minuteP50Us: p50Us, minuteP99Us: p99Us };
    counts.forEach((requests, i) => {
      const s = { ...idle, ...(i === counts.length - 1 ? minute : {}), requests, failures: failureSpark[i] ?? 0 };
      ring.push(endMs - (counts.length - i) * 1000, s);
    });
    this.rings.set(key, ring);
    this.nowMs = Math.max(this.nowMs, endMs - 1000);
  }

  private onSamples(v: api.SamplesEvent): void {
    const busy = new Set<string>();
    const put = (key: string, s: Pick<api.Sample, Column>) => {
      let r = this.rings.get(key);
      if (!r) this.rings.set(key, (r = new SampleRing(ringSeconds)));
      r.push(v.tMs, s);
    };
    for (const s of v.samples) {
      const key = versionKey(s.model, s.version);
      busy.add(key);
      put(key, s);
    }
    for (const m of this.models ?? []) {
      for (const { version, state, evicted } of m.versions) {
        const key = versionKey(m.name, version);
        if (state === "READY" && !evicted && !busy.has(key)) put(key, idle); // the server leaves idle versions out
      }
    }
    this.nowMs = v.tMs;
    this.refusedMinute = v.refusedMinute;
  }
}

export const live = new Live();
