// The typed client of the console's HTTP interface. Types come from Go (api.gen.ts).
import type * as api from "./api.gen";
import { i18n, t } from "./i18n/index.svelte";

declare global {
  interface Window {
    /** Address of the server, set by /config.js: "" in a browser, absolute in the desktop window. */
    __base?: string;
    /** True on the public page, set by its /config.js. */
    __kiosk?: boolean;
  }
}

/** The address that every request starts with. */
export function base(): string {
  return window.__base ?? "";
}

/** A request that the server refused, or that did not reach it (status 0). */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly code: api.Code | "offline",
    readonly status: number,
    readonly faults: api.Fault[] = [],
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** The text of any thrown value, for showing. */
export function errorText(e: unknown): string {
  return e instanceof Error ? e.message : String(e);
}

/** Makes a request that may ask whether code may run. If the user agrees, it is repeated with the answer. */
export async function withConsent<T>(request: (consentCode: boolean) => Promise<T>): Promise<T> {
  try {
    return await request(false);
  } catch (e) {
    if (!(e instanceof ApiError) || e.code !== "consent" || !window.confirm(t("config.runsCode", { what: e.message }))) throw e;
    return request(true);
  }
}

function isApiError(v: unknown): v is api.Error {
  return typeof v === "object" && v !== null && "error" in v && typeof v.error === "string";
}

/** An error of the server in the page's language. */
async function translated(text: string): Promise<string> {
  await i18n.load();
  return i18n.server("errors", text);
}

/** Turns a failed response into an ApiError. */
export async function toApiError(res: Response): Promise<ApiError> {
  const text = await res.text();
  try {
    const body: unknown = JSON.parse(text);
    if (isApiError(body)) return new ApiError(await translated(body.error), body.code ?? "internal", res.status, body.faults ?? []);
  } catch {
    // not JSON: show the text
  }
  return new ApiError(text.trim() || `HTTP ${res.status} ${res.statusText}`, "internal", res.status);
}

let refused = () => {};
/** Sessions that this page has opened. */
let sessions = 0;

/** Sets what is called when the server does not let this browser in. */
export function onRefused(f: () => void): void {
  refused = f;
}

async function call(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<Response> {
  const headers: Record<string, string> = { ...more };
  if (method !== "GET") headers["X-Nereid"] = "1";
  const init: RequestInit = { method, headers };
  if (body instanceof Uint8Array) init.body = body as Uint8Array<ArrayBuffer>;
  else if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  if (signal) init.signal = signal;
  const session = sessions;
  let res: Response;
  try {
    res = await fetch(base() + path, init);
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new ApiError(t("common.offline", { reason: errorText(e) }), "offline", 0);
  }
  if (res.ok) return res;
  const error = await toApiError(res);
  // A request from before the session may be answered after it was opened.
  if (error.code === "unauthenticated" && session === sessions) refused();
  throw error;
}

async function json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const res = await call(method, path, body, signal);
  return (await res.json()) as T;
}

const seg = encodeURIComponent;
const model = (name: string) => `/api/models/${seg(name)}`;
const imp = (id: string) => `/api/imports/${seg(id)}`;

/** Escapes a slash path segment by segment. */
export const escapePath = (path: string) => path.split("/").map(seg).join("/");

function query(params: Record<string, string | number | undefined>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== "") q.set(k, String(v));
  const s = q.toString();
  return s ? "?" + s : "";
}

export interface HistoryQuery {
  model?: string;
  version?: string;
  from: number;
  to: number;
  step?: number;
  /** Only so many of the busiest versions, and the total. */
  most?: number;
}
export interface EventsQuery {
  from?: number;
  to?: number;
  model?: string;
  kind?: string;
  limit?: number;
  before?: number;
}

export interface LogsQuery {
  after?: number;
  /** The lowest level. */
  level?: api.LogLevel;
  model?: string;
  text?: string;
  source?: "" | "server" | "process";
}

export interface RequestsQuery {
  after?: number;
  before?: number;
  show?: string;
  model?: string;
  client?: string;
  id?: string;
  text?: string;
  from?: string;
  to?: string;
  limit?: number;
}

export const client = {
  openSession: async (r: api.OpenSession): Promise<void> => {
    await call("POST", "/api/session", r);
    sessions++;
  },
  server: (s?: AbortSignal) => json<api.Server>("GET", "/api/server", undefined, s),
  machine: (s?: AbortSignal) => json<api.Machine>("GET", "/api/machine", undefined, s),
  metrics: (s?: AbortSignal) => json<api.Metrics>("GET", "/api/metrics", undefined, s),
  frameworks: (s?: AbortSignal) => json<api.Frameworks>("GET", "/api/frameworks", undefined, s),
  install: (name: string) => json<api.Framework>("POST", `/api/frameworks/${seg(name)}/install`, { consent: true } satisfies api.InstallFramework),
  stopInstall: (name: string) => json<api.Framework>("DELETE", `/api/frameworks/${seg(name)}/install`),
  models: (s?: AbortSignal) => json<api.Models>("GET", "/api/models", undefined, s),
  model: (name: string, s?: AbortSignal) => json<api.ModelDetail>("GET", model(name), undefined, s),
  runtime: (name: string, s?: AbortSignal) => json<api.ModelRuntime>("GET", `${model(name)}/runtime`, undefined, s),
  load: (name: string) => json<api.LoadResult>("POST", `${model(name)}/load`),
  unload: (name: string) => json<api.LoadResult>("POST", `${model(name)}/unload`),
  loadVersion: (name: string, version: string) => json<api.LoadResult>("POST", `${model(name)}/versions/${encodeURIComponent(version)}/load`),
  unloadVersion: (name: string, version: string) => json<api.LoadResult>("POST", `${model(name)}/versions/${encodeURIComponent(version)}/unload`),
  pin: (name: string, pinned: boolean) => json<api.Model>("PUT", `${model(name)}/pin`, { pinned }),
  remove: (name: string) => json<api.Trashed>("DELETE", model(name)),
  warmup: (name: string, r: api.WarmupRequest) => json<api.WarmupResult>("POST", `${model(name)}/warmup`, r),
  whatIf: (name: string, w: api.WhatIf, s?: AbortSignal) => json<api.Prediction>("POST", `${model(name)}/what-if`, w, s),
  loadTest: (name: string, s?: AbortSignal) => json<api.LoadTest>("GET", `${model(name)}/load-test`, undefined, s),
  startLoadTest: (name: string, r: api.StartLoadTest) => json<api.LoadTest>("POST", `${model(name)}/load-test`, r),
  stopLoadTest: (name: string) => json<api.LoadTest>("DELETE", `${model(name)}/load-test`),
  tunings: (name: string, s?: AbortSignal) => json<api.Tunings>("GET", `${model(name)}/tunings`, undefined, s),
  planTuning: (name: string, r: api.StartTuning, s?: AbortSignal) => json<api.TuningPlan>("POST", `${model(name)}/tunings/plan`, r, s),
  startTuning: (name: string, r: api.StartTuning) => json<api.Tuning>("POST", `${model(name)}/tunings`, r),
  tuning: (name: string, id: number, from: number, s?: AbortSignal) => json<api.Tuning>("GET", `${model(name)}/tunings/${id}` + query({ from }), undefined, s),
  stopTuning: (name: string, id: number) => json<api.Tuning>("POST", `${model(name)}/tunings/${id}/stop`),
  deleteTuning: async (name: string, id: number) => void (await call("DELETE", `${model(name)}/tunings/${id}`)),
  tuningConfig: (name: string, id: number, config: number, s?: AbortSignal) =>
    json<api.TuningTexts>("GET", `${model(name)}/tunings/${id}/configs/${config}`, undefined, s),
  applyTuning: (name: string, id: number, r: api.ApplyTuning) => json<api.AppliedTuning>("POST", `${model(name)}/tunings/${id}/apply`, r),
  inspection: (name: string, q: { version?: string; runs?: number; dims?: string }, s?: AbortSignal) => json<api.Inspection>("GET", `${model(name)}/inspection${query(q)}`, undefined, s),
  graph: (name: string, version: string, s?: AbortSignal) => json<api.Graph>("GET", `${model(name)}/graph${query({ version })}`, undefined, s),
  capture: (name: string) => json<api.Capture>("GET", `${model(name)}/capture`),
  setCapture: (name: string, body: api.SetCapture) => json<api.Capture>("PUT", `${model(name)}/capture`, body),
  contents: (id: number, s?: AbortSignal) => json<api.RequestContents>("GET", `/api/requests/${id}/contents`, undefined, s),
  replay: (id: number, version: string) => json<api.Replay>("POST", `/api/requests/${id}/replay`, { version }),
  replayLast: (name: string, version: string, count: number) => json<api.Replays>("POST", `${model(name)}/replay`, { version, count }),
  forgetCapture: (name: string) => json<api.Capture>("DELETE", `${model(name)}/capture`),
  kiosk: () => json<api.Kiosk>("GET", "/api/kiosk"),
  kioskModel: (name: string) => json<api.KioskDetail>("GET", `/api/kiosk/${seg(name)}`),
  kioskExample: (name: string, request: string) => json<api.SavedRequest>("GET", `/api/kiosk/${seg(name)}/requests/${seg(request)}`),
  savedRequests: (name: string, s?: AbortSignal) => json<api.SavedRequests>("GET", `${model(name)}/requests`, undefined, s),
  savedRequest: (name: string, request: string) => json<api.SavedRequest>("GET", `${model(name)}/requests/${seg(request)}`),
  saveRequest: (name: string, request: string, r: api.SaveRequest) => json<api.SavedRequests>("PUT", `${model(name)}/requests/${seg(request)}`, r),
  supportURL: () => `${base()}/api/support`,
  dashboardURL: () => `${base()}/api/monitoring/dashboard`,
  rulesURL: () => `${base()}/api/monitoring/rules`,
  archiveURL: (name: string) => `${base()}${model(name)}/archive`,
  trash: (s?: AbortSignal) => json<api.Trash>("GET", "/api/trash", undefined, s),
  restoreTrash: (id: string) => json<api.Trashed>("POST", `/api/trash/${seg(id)}/restore`),

  gallery: (s?: AbortSignal) => json<api.Gallery>("GET", "/api/gallery", undefined, s),
  startDownload: (r: api.StartDownload) => json<api.Download>("POST", "/api/downloads", r),
  download: (id: string) => json<api.Download>("GET", `/api/downloads/${seg(id)}`),
  cancelDownload: async (id: string) => void (await call("DELETE", `/api/downloads/${seg(id)}`)),

  createConversion: () => json<api.Conversion>("POST", "/api/conversions"),
  startConversion: (id: string, r: api.StartConversion) => json<api.Conversion>("POST", `/api/conversions/${seg(id)}/start`, r),
  conversion: (id: string) => json<api.Conversion>("GET", `/api/conversions/${seg(id)}`),
  dropConversion: async (id: string) => void (await call("DELETE", `/api/conversions/${seg(id)}`)),

  createImport: (r: api.ImportCreate) => json<api.Import>("POST", "/api/imports", r),
  getImport: (id: string) => json<api.Import>("GET", imp(id)),
  analyzeImport: (id: string) => json<api.Import>("POST", `${imp(id)}/analyze`),
  configureImport: (id: string, r: api.ImportConfig) => json<api.Import>("PUT", `${imp(id)}/config`, r),
  commitImport: (id: string, r: api.ImportCommit) => json<api.Import>("POST", `${imp(id)}/commit`, r),
  dropImport: async (id: string) => void (await call("DELETE", imp(id))),
  pick: (folder: boolean) => json<api.PickResult>("POST", "/api/desktop/pick", { folder } satisfies api.PickRequest),

  desktop: (s?: AbortSignal) => json<api.Desktop>("GET", "/api/desktop", undefined, s),
  setDesktop: (r: api.SetDesktop) => json<api.Desktop>("PUT", "/api/desktop", r),

  fields: () => json<api.ConfigFields>("GET", "/api/config/fields"),
  check: (r: api.CheckRequest, s?: AbortSignal) => json<api.CheckResult>("POST", "/api/config/check", r, s),
  saveConfig: (name: string, r: api.SaveConfig) => json<api.SaveResult>("PUT", `${model(name)}/config`, r),
  /** A page of revisions: those before an ID, or the newest. */
  revisions: (name: string, before?: number, s?: AbortSignal) =>
    json<api.Revisions>("GET", `${model(name)}/revisions` + query({ before }), undefined, s),
  revision: (name: string, id: number, s?: AbortSignal) =>
    json<api.RevisionFull>("GET", `${model(name)}/revisions/${id}`, undefined, s),
  restore: (name: string, id: number, r: api.RestoreRequest) =>
    json<api.SaveResult>("POST", `${model(name)}/revisions/${id}/restore`, r),

  access: (s?: AbortSignal) => json<api.Access>("GET", "/api/access", undefined, s),
  createToken: (r: api.NewToken) => json<api.MadeToken>("POST", "/api/access/tokens", r),
  revokeToken: (id: string) => json<api.Access>("DELETE", `/api/access/tokens/${seg(id)}`),
  setNetwork: (r: api.SetNetwork) => json<api.Access>("PUT", "/api/access/network", r),

  alerts: (s?: AbortSignal) => json<api.Alerts>("GET", "/api/alerts", undefined, s),
  dismissAlert: (id: number) => json<api.Alerts>("POST", `/api/alerts/${id}/dismiss`),
  serverAlertRules: (s?: AbortSignal) => json<api.AlertRules>("GET", "/api/alerts/rules", undefined, s),
  setServerAlertRules: (r: api.SetAlertRules) => json<api.AlertRules>("PUT", "/api/alerts/rules", r),
  alertRules: (name: string, s?: AbortSignal) => json<api.AlertRules>("GET", `${model(name)}/alerts`, undefined, s),
  setAlertRules: (name: string, r: api.SetAlertRules) => json<api.AlertRules>("PUT", `${model(name)}/alerts`, r),
  loads: (name: string, s?: AbortSignal) => json<api.ModelLoads>("GET", `${model(name)}/loads`, undefined, s),
  webhook: (s?: AbortSignal) => json<api.Webhook>("GET", "/api/webhook", undefined, s),
  setWebhook: (r: api.SetWebhook) => json<api.Webhook>("PUT", "/api/webhook", r),
  testWebhook: () => json<api.Webhook>("POST", "/api/webhook/test"),

  logs: (q: LogsQuery, s?: AbortSignal) => json<api.Logs>("GET", "/api/logs" + query({ ...q }), undefined, s),
  setLog: (r: api.SetLog) => json<api.LogSettings>("PUT", "/api/logs/settings", r),

  history: (q: HistoryQuery, s?: AbortSignal) =>
    json<api.History>("GET", "/api/history" + query({ ...q }), undefined, s),
  machineHistory: (q: HistoryQuery, s?: AbortSignal) =>
    json<api.MachineHistory>("GET", "/api/history/machine" + query({ ...q }), undefined, s),
  events: (q: EventsQuery, s?: AbortSignal) =>
    json<api.Events>("GET", "/api/history/events" + query({ ...q }), undefined, s),
  requests: (q: RequestsQuery, s?: AbortSignal) => json<api.Requests>("GET", "/api/requests" + query({ ...q }), undefined, s),
  request: (id: number, s?: AbortSignal) => json<api.RequestDetail>("GET", `/api/requests/${id}`, undefined, s),
  /** Sends an inference request to two versions of a model. */
  shadow: (name: string, signal?: AbortSignal) => json<api.Shadow>("GET", `${model(name)}/shadow`, undefined, signal),
  startShadow: (name: string, req: api.StartShadow) => json<api.Shadow>("POST", `${model(name)}/shadow`, req),
  discardShadow: (name: string) => json<api.Shadow>("DELETE", `${model(name)}/shadow`),
  promoteShadow: (name: string) => json<api.LoadResult>("POST", `${model(name)}/shadow/promote`),
  compare: async (name: string, version: string, other: string, repeat: number, body: Uint8Array<ArrayBuffer>, headers: Record<string, string>) => {
    const res = await call("POST", `/api/compare/${seg(name)}/versions/${seg(version)}/with/${seg(other)}` + query({ repeat }), body, undefined, headers);
    return (await res.json()) as api.Comparison;
  },
  refused: (s?: AbortSignal) => json<api.Refused>("GET", "/api/refused", undefined, s),
};
