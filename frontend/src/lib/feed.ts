// The event stream (GET /api/events) for several tabs: it reads the server once and passes everything on to each tab.
// So does the stream of requests, which is open only while a tab shows them.
// It runs in a SharedWorker (feedworker.ts), because a browser opens at most six connections to one host.
import type * as api from "./api.gen";

/**
 * open and lost follow the connection. refused: the server closed it with an error. unwatched: requests do not come any
 * more, until the next watch.
 */
export type FeedStatus = "open" | "lost" | "refused" | "unwatched";

/** What a tab receives, in order. data is JSON; atMs is when it arrived, in milliseconds since 1970. */
export type FeedMessage = { topic: FeedStatus } | { topic: string; data: string; atMs: number };

/** The requests that a tab wants to get as they end: those of a filter (see queryOf) from a position of the log on. */
export interface Watch { query: string; after: number }

/**
 * What a tab sends. Without "leave" the stream would stay open for pages that the browser keeps for its back button.
 * A watch replaces the one before; it is answered with messages of the topic "requests", or with one of "unwatched"
 * when their stream breaks.
 */
export type FeedCall = "join" | "leave" | { watch: Watch | null };

const topics = ["models", "samples", "event", "machine", "framework", "import"] as const;
const keepMs = 60_000;

/** The list after a models event, sorted by name. */
export function merge(old: api.Model[], e: api.ModelsEvent): api.Model[] {
  const byName = new Map(e.full ? [] : old.map((m) => [m.name, m] as const));
  for (const name of e.removed) byName.delete(name);
  for (const m of e.models) byName.set(m.name, m);
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

export class Feed {
  private readonly ports = new Set<MessagePort>();
  private source: EventSource | null = null;
  private status: FeedStatus | null = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private waitMs = 1000;
  // For tabs that join later: the models, when they were all sent, and the messages of the last minute.
  private models: api.Model[] | null = null;
  private modelsMs = { told: 0, at: 0 }; // when they were: the server's time and the browser's
  private samples: { topic: string; data: string; atMs: number }[] = [];
  private machine: FeedMessage | null = null;
  private readonly watches = new Map<MessagePort, Watch>();
  private requests: EventSource | null = null;

  /** base is the address of the server. */
  constructor(private readonly base: string) {}

  /** Serves the page at the other end of a port. */
  serve(port: MessagePort): void {
    port.onmessage = (e: MessageEvent<FeedCall>) => {
      if (e.data === "join") this.join(port);
      else if (e.data === "leave") this.leave(port);
      else this.watch(port, e.data.watch);
    };
    port.addEventListener("close", () => this.leave(port)); // the page has crashed
  }

  private join(port: MessagePort): void {
    this.ports.add(port);
    if (!this.source || this.source.readyState === EventSource.CLOSED) this.open();
    if (this.status === "open") port.postMessage([{ topic: "open" }, ...this.past()]);
  }

  private leave(port: MessagePort): void {
    this.watch(port, null);
    this.ports.delete(port);
    if (this.ports.size === 0) this.close();
  }

  private watch(port: MessagePort, w: Watch | null): void {
    if (!w && !this.watches.has(port)) return;
    this.watches.delete(port);
    if (w) this.watches.set(port, { ...w });
    this.requests?.close();
    this.requests = null;
    if (this.watches.size === 0) return;
    const all = [...this.watches];
    const of = all.map(([, { query, after }]) => "of=" + encodeURIComponent(`${query}${query ? "&" : ""}after=${after}`));
    const s = (this.requests = new EventSource(`${this.base}/api/requests/live?${of.join("&")}`));
    s.addEventListener("requests", (e: MessageEvent<string>) => {
      const v = JSON.parse(e.data) as api.RequestsEvent;
      const [p, mine] = all[v.of] ?? [];
      if (!p || !mine) return;
      mine.after = v.next;
      p.postMessage([{ topic: "requests", data: e.data, atMs: Date.now() }] satisfies FeedMessage[]);
    });
    s.onerror = () => { // it may be another server now: the tabs read the list again, and watch from there
      s.close();
      if (this.requests !== s) return;
      this.requests = null;
      this.watches.clear();
      for (const [p] of all) p.postMessage([{ topic: "unwatched" }] satisfies FeedMessage[]);
    };
  }

  private past(): FeedMessage[] {
    if (!this.models) return [];
    const e: api.ModelsEvent = { tMs: this.modelsMs.told, full: true, models: this.models, removed: [] };
    const out: FeedMessage[] = [{ topic: "models", data: JSON.stringify(e), atMs: this.modelsMs.at }, ...this.samples];
    return this.machine ? [...out, this.machine] : out;
  }

  private open(): void {
    this.close();
    const s = (this.source = new EventSource(this.base + "/api/events"));
    s.onopen = () => {
      this.waitMs = 1000;
      this.tell("open");
    };
    s.onerror = () => {
      const closed = s.readyState === EventSource.CLOSED;
      this.tell(closed ? "refused" : "lost"); // a lost connection is opened again by the browser
      if (!closed) return;
      this.retry = setTimeout(() => this.open(), this.waitMs);
      this.waitMs = Math.min(this.waitMs * 2, 10_000);
    };
    for (const topic of topics) {
      s.addEventListener(topic, (e: MessageEvent<string>) => {
        const m = { topic, data: e.data, atMs: Date.now() };
        this.keep(m);
        this.send(m);
      });
    }
  }

  private close(): void {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = this.models = this.machine = this.status = null;
    this.samples = [];
  }

  private tell(status: FeedStatus): void {
    this.status = status;
    this.send({ topic: status });
  }

  private send(m: FeedMessage): void {
    for (const p of this.ports) p.postMessage([m]);
  }

  private keep(m: { topic: string; data: string; atMs: number }): void {
    if (m.topic === "machine") this.machine = m;
    if (m.topic === "samples") this.samples = [...this.samples.filter((x) => x.atMs > m.atMs - keepMs), m];
    if (m.topic !== "models") return;
    const e = JSON.parse(m.data) as api.ModelsEvent;
    if (e.full) this.modelsMs = { told: e.tMs, at: m.atMs };
    this.models = merge(this.models ?? [], e);
  }
}

/** A page's part in the streams. */
export interface Joined { leave(): void; watch(w: Watch | null): void }

/**
 * Joins the stream of this browser, or opens one of this page's own where tabs cannot share: in the desktop window,
 * which has one page, and where the worker does not start. received gets the messages in order.
 */
export function join(base: string, received: (messages: FeedMessage[]) => void): Joined {
  let port: MessagePort | null = null;
  let watching: Watch | null = null;
  const connect = (p: MessagePort) => {
    port = p;
    p.onmessage = (e: MessageEvent<FeedMessage[]>) => received(e.data);
    p.postMessage("join" satisfies FeedCall);
    if (watching) p.postMessage({ watch: watching } satisfies FeedCall);
  };
  const alone = () => {
    const { port1, port2 } = new MessageChannel();
    new Feed(base).serve(port1);
    connect(port2);
  };
  if (base !== "" || typeof SharedWorker === "undefined") alone();
  else {
    const worker = new SharedWorker(new URL("./feedworker.ts", import.meta.url), { type: "module", name: "nereid" });
    worker.onerror = () => port && alone();
    connect(worker.port);
  }
  return {
    leave: () => {
      port?.postMessage("leave" satisfies FeedCall);
      if (port) port.onmessage = null;
      port?.close();
      port = null;
    },
    watch: (w) => {
      watching = w;
      port?.postMessage({ watch: w } satisfies FeedCall);
    },
  };
}
