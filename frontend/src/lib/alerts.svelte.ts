// The alerts of the server, and notifications of this browser about them.
import type { Alert, Alerts, ModelLoad } from "./api.gen";
import { client } from "./api";
import { bytes, us } from "./format";
import { serverNow } from "./clock";
import { t } from "./i18n/index.svelte";
import { read, write } from "./prefs.svelte";
import { href } from "./router.svelte";

const noticesKey = "nereid.notices";

/** A share with a decimal below ten percent, because limits are small. */
export const share = (v: number) => `${(100 * v).toFixed(v < 0.1 ? 1 : 0)} %`;

/** A value or a limit with the unit of the alert's kind. */
export function figure(kind: Alert["kind"], v: number): string {
  if (kind === "failures" || kind === "refused") return share(v);
  if (kind === "p99") return us(v);
  if (kind === "memory") return bytes(Math.round(v));
  return String(Math.round(v * 100) / 100);
}

/** What an alert found, in the page's language. */
export function alertText(a: Alert): string {
  const c = a.compared;
  if (!c) return t(`alert.text.${a.kind as Exclude<Alert["kind"], "version">}`, { value: figure(a.kind, a.value), limit: figure(a.kind, a.limit) });
  const parts: string[] = [];
  if (c.slower) parts.push(t("alert.text.slower", { now: us(c.nowUs), before: us(c.beforeUs), factor: a.value.toFixed(2) }));
  if (c.failsMore) parts.push(t("alert.text.failsMore", { now: share(c.nowFailures), before: share(c.beforeFailures) }));
  if (c.beforeCpu !== null && c.nowCpu !== null) parts.push(t("alert.text.cpu", { now: share(c.nowCpu), before: share(c.beforeCpu) }));
  return t(c.before === a.version ? "alert.text.reload" : "alert.text.version", { before: c.before, what: parts.join(t("alert.text.join")) });
}

/** Where to look for what an alert is about. */
export function alertLink(a: Alert): { href: string; text: string } {
  const around = 600_000; // ms before and after
  if (a.kind === "refused") return { href: href.requests("show=refused"), text: t("alert.see.refused") };
  if (a.kind === "failures" || a.compared?.failsMore) return { href: href.failed(a.model), text: t("alert.see.failed") };
  if (a.kind === "restarts") return { href: href.logs(a.model), text: t("alert.see.log") };
  return { href: href.charts(a.model, a.sinceMs - around, Math.min(serverNow(), (a.endMs || a.sinceMs) + around)), text: t("alert.see.charts") };
}

/** Whether the files of a load are others than those of the load of the same version before. The newest load is first. */
export function filesChanged(loads: readonly ModelLoad[], i: number): boolean {
  const before = loads.slice(i + 1).find((l) => l.version === loads[i]?.version);
  return !!before?.files && !!loads[i]?.files && before.files !== loads[i].files;
}

class AlertState {
  value = $state.raw<Alerts>({ open: [], past: [] });
  /** Notifications of the browser are wanted and allowed. */
  notices = $state(read(noticesKey) === "on" && typeof Notification !== "undefined" && Notification.permission === "granted");
  private known = Number.MAX_SAFE_INTEGER; // the newest alert that needs no notification

  /** The alerts that ask for attention. */
  get urgent(): Alert[] {
    return this.value.open.filter((a) => !a.silenced);
  }

  of(model: string): Alert[] {
    return this.value.open.filter((a) => a.model === model);
  }

  /** Reads the alerts again. Those that are new since the first time raise notifications. */
  async refresh(): Promise<void> {
    try {
      this.take(await client.alerts());
    } catch {
      // the page says that the server is lost; the next event or connection tries again
    }
  }

  take(v: Alerts): void {
    this.value = v;
    const newest = Math.max(0, ...[...v.open, ...v.past].map((a) => a.id));
    for (const a of v.open) if (a.id > this.known && !a.silenced && this.notices) this.notify(a);
    this.known = newest;
  }

  /** Turns notifications on or off, and asks the browser for its permission. Returns whether they are as wanted. */
  async setNotices(on: boolean): Promise<boolean> {
    if (on && typeof Notification === "undefined") return false;
    if (on && (await Notification.requestPermission()) !== "granted") return false;
    this.notices = on;
    write(noticesKey, on ? "on" : "off");
    return true;
  }

  private notify(a: Alert): void {
    // Several tabs show one notification: the tag replaces an earlier one.
    new Notification(a.model ? `Nereid: ${a.model}` : "Nereid", { body: alertText(a), tag: `nereid-alert-${a.id}` });
  }
}

export const alerts = new AlertState();
