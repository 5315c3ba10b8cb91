// The packages that backends need: what is there, what is being installed, and the question before it.
import { client, errorText } from "./api";
import type { Framework } from "./api.gen";
import { t } from "./i18n/index.svelte";
import { toasts } from "./toast.svelte";

class FrameworkList {
  all = $state.raw<Framework[] | null>(null);
  error = $state<string | null>(null);
  /** The name of the one that the user is asked about. */
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

  /** The framework of a backend. The list is fetched when it is first wanted. */
  of(backend: string): Framework | undefined {
    if (this.all === null && this.error === null) void this.refresh();
    return this.all?.find((f) => f.name === backend);
  }

  /** The one that the user is asked about. */
  get asking(): Framework | null {
    return this.all?.find((f) => f.name === this.about) ?? null;
  }

  /** Asks the user; what waits for it is looked up anew. */
  ask(f: Framework | null): void {
    this.about = f?.name ?? "";
    if (f) void this.refresh();
  }

  /** Takes the news of one. */
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
