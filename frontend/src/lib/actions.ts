// Actions on models, with their messages.
import { client, errorText } from "./api";
import { t } from "./i18n/index.svelte";
import { live } from "./live.svelte";
import { href, router } from "./router.svelte";
import { toasts } from "./toast.svelte";

/** Loads or reloads a model. The reason of a failure appears in the row of the model and in a message. */
export async function loadModel(name: string): Promise<void> {
  try {
    const r = await client.load(name);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.loaded", { name }));
    else toasts.show("error", t(r.keepsServing ? "act.loadFailedKeeps" : "act.loadFailed", { name, reason: r.reason }));
  } catch (e) {
    toasts.show("error", t("act.loadFailed", { name, reason: errorText(e) }));
  }
}

export async function unloadModel(name: string): Promise<void> {
  try {
    const r = await client.unload(name);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.unloaded", { name }));
    else toasts.show("error", t("act.unloadFailed", { name, reason: r.reason }));
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
    else toasts.show("error", t("act.loadFailed", { name: what, reason: r.reason }));
  } catch (e) {
    toasts.show("error", t("act.loadFailed", { name: what, reason: errorText(e) }));
  }
}

/** Unloads a single version; the message offers to load it again. */
export async function unloadVersion(name: string, version: string): Promise<void> {
  const what = `${name} ${t("common.v")}${version}`;
  try {
    const r = await client.unloadVersion(name, version);
    live.put(r.model);
    if (r.ok) toasts.show("ok", t("act.unloaded", { name: what }), { label: t("common.undo"), run: () => void loadVersion(name, version) });
    else toasts.show("error", t("act.unloadFailed", { name: what, reason: r.reason }));
  } catch (e) {
    toasts.show("error", t("act.unloadFailed", { name: what, reason: errorText(e) }));
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
