// The packages that backends need, their state, and the dialog that asks before an installation.
import { client, errorText } from "./api";
import type { Framework, Model, Version } from "./api.gen";
import { t } from "./i18n/index.svelte";
import { toasts } from "./toast.svelte";

class FrameworkList {
  all = $state.raw<Framework[] | null>(null);
  error = $state<string | null>(null);
  /** The name of the framework in the dialog. */
  private about = $state("");
  private fetching: Promise<void> | null = null;

  /** Fetches the list, once at a time. */
  refresh(): Promise<void> {
    this.fetching ??= client.frameworks().then(
      (v) => ((this.all = v.frameworks), (this.error = null)),
      (e: unknown) => (this.error = errorText(e)),
    ).then(() => void (this.fetching = null));
    return this.fetching;
  }

  /** The framework of a backend. The first call fetches the list. */
  of(backend: string): Framework | undefined {
    if (this.all === null && this.error === null) void this.refresh();
    return this.all?.find((f) => f.name === backend);
  }

  /** The framework that a model lacks, by the reason why it does not serve. One that is only unloaded may find it elsewhere on the machine. */
  lackedBy(m: Pick<Model, "state" | "backend" | "reason"> & { versions: Pick<Version, "reason">[] }): Framework | undefined {
    const f = m.state === "READY" ? undefined : this.of(m.backend);
    if (!f || f.state === "installed") return undefined;
    return [m.reason, ...m.versions.map((v) => v.reason)].some((r) => r.includes(`${f.title} is not installed`)) ? f : undefined;
  }

  /** The framework in the dialog. */
  get asking(): Framework | null {
    return this.all?.find((f) => f.name === this.about) ?? null;
  }

  /** Opens the dialog, and fetches the list of waiting models again. */
  ask(f: Framework | null): void {
    this.about = f?.name ?? "";
    if (f) void this.refresh();
  }

  /** Updates one framework. */
  put(f: Framework): void {
    const before = this.all?.find((x) => x.name === f.name);
    this.all = (this.all ?? [f]).map((x) => (x.name === f.name ? f : x));
    if (before?.state !== "installing") return;
    if (f.state === "installed") toasts.show("ok", t("framework.done", { name: f.title }));
    if (f.state === "failed") toasts.show("error", f.reason);
  }

  async install(f: Framework): Promise<void> {
    this.ask(null);
    await this.change(client.install(f.name));
  }

  async stop(f: Framework): Promise<void> {
    await this.change(client.stopInstall(f.name));
  }

  private async change(request: Promise<Framework>): Promise<void> {
    try {
      this.put(await request);
    } catch (e) {
      toasts.show("error", errorText(e));
    }
  }
}

export const frameworks = new FrameworkList();
