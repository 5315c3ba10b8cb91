// Actions on models, with their messages.
import { client, errorText } from "./api";
import { serverError, t } from "./i18n/index.svelte";
import { live } from "./live.svelte";
import { summary } from "./recent";
import { href, router } from "./router.svelte";
import { toasts } from "./toast.svelte";

/** Loads or reloads a model. The reason of a failure appears in the row of the model and in a message. */
export async function loadModel(name: string): Promise<void> {
  try {
    const r = await client.load(name);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.loaded", { name }));
    else toasts.show("error", t(r.keepsServing ? "act.loadFailedKeeps" : "act.loadFailed", { name, reason: serverError(r.reason) }));
  } catch (e) {
    toasts.show("error", t("act.loadFailed", { name, reason: errorText(e) }));
  }
}

/** The models with their requests of the last minute, of those that had any. */
function inUse(names: readonly string[]): { name: string; requests: number }[] {
  return names.flatMap((name) => {
    const m = live.model(name);
    const requests = m ? summary(m, (v) => live.ring(name, v.version), live.nowMs).spark.reduce((a, b) => a + b, 0) : 0;
    return requests > 0 ? [{ name, requests }] : [];
  });
}

/** Asks before models that clients use are taken out of service; true: go on. */
function sure(names: readonly string[]): boolean {
  const used = inUse(names).map((m) => t("act.inUse", { name: m.name, n: m.requests }));
  return used.length === 0 || window.confirm(`${used.join("\n")}\n\n${t("act.inUseSure")}`);
}

/** Loads or unloads models one after the other. done is called after each. A message says what failed. */
export async function all(what: "load" | "unload", names: readonly string[], done: (n: number) => void): Promise<void> {
  if (what === "unload" && !sure(names)) return;
  const failed: string[] = [];
  for (const [i, name] of names.entries()) {
    try {
      const r = await client[what](name);
      live.put(r.model);
      if (!r.ok) failed.push(`${name}: ${serverError(r.reason)}`);
    } catch (e) {
      failed.push(`${name}: ${errorText(e)}`);
    }
    done(i + 1);
  }
  if (failed.length > 0) toasts.show("error", t("act.someFailed", { n: failed.length, of: names.length, reason: failed.join("\n") }));
  else toasts.show("ok", t(what === "load" ? "act.allLoaded" : "act.allUnloaded", { n: names.length }));
}

export async function unloadModel(name: string): Promise<void> {
  if (!sure([name])) return;
  try {
    const r = await client.unload(name);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.unloaded", { name }));
    else toasts.show("error", t("act.unloadFailed", { name, reason: serverError(r.reason) }));
  } catch (e) {
    toasts.show("error", t("act.unloadFailed", { name, reason: errorText(e) }));
  }
}

/** Loads a single version; the others do not change. */
export async function loadVersion(name: string, version: string): Promise<void> {
  const what = `${name} ${t("common.v")}${version}`;
  try {
    const r = await client.loadVersion(name, version);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.loaded", { name: what }));
    else toasts.show("error", t("act.loadFailed", { name: what, reason: serverError(r.reason) }));
  } catch (e) {
    toasts.show("error", t("act.loadFailed", { name: what, reason: errorText(e) }));
  }
}

/** Unloads a single version; the message offers to load it again. */
export async function unloadVersion(name: string, version: string): Promise<void> {
  if (!sure([name])) return;
  const what = `${name} ${t("common.v")}${version}`;
  try {
    const r = await client.unloadVersion(name, version);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.unloaded", { name: what }), { label: t("common.undo"), run: () => void loadVersion(name, version) });
    else toasts.show("error", t("act.unloadFailed", { name: what, reason: serverError(r.reason) }));
  } catch (e) {
    toasts.show("error", t("act.unloadFailed", { name: what, reason: errorText(e) }));
  }
}

/** Serves an earlier version again in the place of one. If the earlier one does not load, nothing changes. */
export async function serveInstead(name: string, before: string, now: string): Promise<void> {
  try {
    for (const change of [() => client.loadVersion(name, before), () => client.unloadVersion(name, now)]) {
      const r = await change();
      live.put(r.model);
      if (!r.ok) throw new Error(serverError(r.reason));
    }
    toasts.show("ok", t("alert.served", { name, before, now }), { label: t("common.undo"), run: () => void serveInstead(name, now, before) });
  } catch (e) {
    toasts.show("error", t("act.loadFailed", { name: `${name} ${t("common.v")}${before}`, reason: errorText(e) }));
  }
}

/** Pins a model in memory, or unpins it. */
export async function pinModel(name: string, pinned: boolean): Promise<void> {
  try {
    live.put(await client.pin(name, pinned));
  } catch (e) {
    toasts.show("error", errorText(e));
  }
}

/** Moves the model's folder to the trash; the message offers to undo it. */
export async function removeModel(name: string): Promise<void> {
  if (!sure([name])) return;
  try {
    // Leave the page of the model first: it would request a model that no longer exists.
    if (router.route.view === "model" && router.route.name === name && !(await router.leaveFor(href.models))) return;
    const trashed = await client.remove(name);
    toasts.show("info", t("act.removed", { name }), { label: t("common.undo"), run: () => void restoreTrash(trashed.id) });
  } catch (e) {
    toasts.show("error", t("act.removeFailed", { name, reason: errorText(e) }));
  }
}

export async function restoreTrash(id: string): Promise<void> {
  try {
    const r = await client.restoreTrash(id);
    toasts.show("ok", t("act.restored", { name: r.model }));
  } catch (e) {
    toasts.show("error", errorText(e));
  }
}
