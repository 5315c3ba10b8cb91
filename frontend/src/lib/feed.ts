// The event stream (GET /api/events) for several tabs: it reads the server once and passes everything on to each tab.
// It runs in a SharedWorker (feedworker.ts), because a browser opens at most six connections to one host.
import type * as api from "./api.gen";

/** open and lost follow the connection. refused: the server closed it with an error. */
export type FeedStatus = "open" | "lost" | "refused";

/** What a tab receives, in order. data is JSON; atMs is when it arrived, in milliseconds since 1970. */
export type FeedMessage = { topic: FeedStatus } | { topic: string; data: string; atMs: number };

/** What a tab sends. Without "leave" the stream would stay open for pages that the browser keeps for its back button. */
export type FeedCall = "join" | "leave";

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

  constructor(private readonly url: string) {}

  /** Serves the page at the other end of a port. */
  serve(port: MessagePort): void {
    port.onmessage = (e: MessageEvent<FeedCall>) => (e.data === "join" ? this.join(port) : this.leave(port));
    port.addEventListener("close", () => this.leave(port)); // the page has crashed
  }

  private join(port: MessagePort): void {
    this.ports.add(port);
    if (!this.source || this.source.readyState === EventSource.CLOSED) this.open();
    if (this.status === "open") port.postMessage([{ topic: "open" }, ...this.past()]);
  }

  private leave(port: MessagePort): void {
    this.ports.delete(port);
    if (this.ports.size === 0) this.close();
  }

  private past(): FeedMessage[] {
    if (!this.models) return [];
    const e: api.ModelsEvent = { tMs: this.modelsMs.told, full: true, models: this.models, removed: [] };
    const out: FeedMessage[] = [{ topic: "models", data: JSON.stringify(e), atMs: this.modelsMs.at }, ...this.samples];
    return this.machine ? [...out, this.machine] : out;
  }

  private open(): void {
    this.close();
    const s = (this.source = new EventSource(this.url));
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
    // The requests before a model's own message are not those before modelsMs.
    else for (const x of e.models) for (const v of x.versions) v.lastMinute.spark = [];
    this.models = merge(this.models ?? [], e);
  }
}

/**
 * Joins the stream of this browser, or opens one of this page's own where tabs cannot share: in the desktop window,
 * which has one page, and where the worker does not start. received gets the messages in order; the result leaves.
 */
export function join(base: string, received: (messages: FeedMessage[]) => void): () => void {
  let port: MessagePort | null = null;
  const connect = (p: MessagePort) => {
    port = p;
    p.onmessage = (e: MessageEvent<FeedMessage[]>) => received(e.data);
    p.postMessage("join" satisfies FeedCall);
  };
  const alone = () => {
    const { port1, port2 } = new MessageChannel();
    new Feed(base + "/api/events").serve(port1);
    connect(port2);
  };
  if (base !== "" || typeof SharedWorker === "undefined") alone();
  else {
    const worker = new SharedWorker(new URL("./feedworker.ts", import.meta.url), { type: "module", name: "nereid" });
    worker.onerror = () => port && alone();
    connect(worker.port);
  }
  return () => {
    port?.postMessage("leave" satisfies FeedCall);
    if (port) port.onmessage = null;
    port?.close();
    port = null;
  };
}
