// Hash routes, which work in a browser and in the desktop window.

export const tabs = ["overview", "try", "config", "tune", "charts", "inside", "alerts", "revisions"] as const;
export type Tab = (typeof tabs)[number];

export type Route =
  | { view: "models" }
  | { view: "model"; name: string; tab: Tab }
  | { view: "get" }
  | { view: "convert" }
  | { view: "history" }
  | { view: "logs"; name: string }
  | { view: "requests"; query: string }
  | { view: "server" }
  | { view: "settings" };

function isTab(s: string | undefined): s is Tab {
  return tabs.some((t) => t === s);
}

/** The text of an escaped part of a hash; empty if its escapes are broken. */
function decoded(part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? "");
  } catch {
    return "";
  }
}

const path = (hash: string) => hash.split("?")[0] ?? "";

/** Parses a location hash. An unknown hash is the list of models. */
export function parse(hash: string): Route {
  const [before, query] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, name, tab] = (before ?? "").split("/");
  if (view === "models" && name) {
    try {
      return { view: "model", name: decodeURIComponent(name), tab: isTab(tab) ? tab : "overview" };
    } catch {
      return { view: "models" }; // a broken escape
    }
  }
  if (view === "logs") return { view, name: decoded(name) };
  if (view === "requests") return { view, query: query ?? "" };
  if (view === "get" || view === "convert" || view === "history" || view === "server" || view === "settings") return { view };
  return { view: "models" };
}

export const href = {
  models: "#/models",
  get: "#/get",
  convert: "#/convert",
  history: "#/history",
  logs: (model = "") => (model ? `#/logs/${encodeURIComponent(model)}` : "#/logs"),
  requests: (query = "") => (query ? `#/requests?${query}` : "#/requests"),
  failed: (model: string): string => href.requests(String(new URLSearchParams({ show: "failed", model }))),
  server: "#/server",
  settings: "#/settings",
  charts: (name: string, from: number, to: number): string => `${href.model(name, "charts")}?from=${Math.floor(from)}&to=${Math.ceil(to)}`,
  model: (name: string, tab: Tab = "overview"): string =>
    `#/models/${encodeURIComponent(name)}${tab === "overview" ? "" : "/" + tab}`,
};

class Router {
  route = $state<Route>(parse(location.hash));

  constructor() {
    window.addEventListener("hashchange", () => {
      if (this.leave && !this.leave(parse(location.hash))) {
        history.replaceState(null, "", this.last);
        return;
      }
      this.last = location.hash;
      this.route = parse(location.hash);
    });
  }

  private last = location.hash;
  /** Called before a change of route; false keeps the page, because it has unsaved changes. */
  leave: ((to: Route) => boolean) | null = null;

  /** What follows the "?" of the address, such as the range of charts. */
  get query(): URLSearchParams {
    void this.route; // changes with the address
    return new URLSearchParams(location.hash.split("?")[1]);
  }

  /** Sets or removes ("") parts of the query. It adds no step to the back button. */
  setQuery(parts: Record<string, string>): void {
    const q = this.query;
    for (const [k, v] of Object.entries(parts)) {
      if (v) q.set(k, v);
      else q.delete(k);
    }
    history.replaceState(history.state, "", path(location.hash) + (q.size > 0 ? `?${q}` : ""));
    this.last = location.hash;
  }

  go(to: string): void {
    location.hash = to;
  }

  /** Changes the address within a page, without an entry in the browser's history. */
  replace(to: string): void {
    history.replaceState(null, "", to);
    this.last = location.hash;
    this.route = parse(location.hash);
  }

  /** Navigates, and returns whether the page was left; false if unsaved changes keep it. */
  leaveFor(to: string): Promise<boolean> {
    if (location.hash === to) return Promise.resolve(true);
    return new Promise((done) => {
      window.addEventListener("hashchange", () => done(location.hash === to), { once: true });
      this.go(to);
    });
  }
}

export const router = new Router();
