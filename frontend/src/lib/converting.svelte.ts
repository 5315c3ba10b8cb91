// A model that the server converts. When it is there, its report is shown; the user adds it by the import dialog, or discards it.
import { client, errorText } from "./api";
import type { Conversion, StartConversion } from "./api.gen";
import type { Upload } from "./drop";
import { importing } from "./importing.svelte";
import { putAll } from "./upload";

/** How often a running conversion is looked at, in milliseconds. */
const pause = 500;

/** Files that are not the model itself: weights and code that the model's file needs, and rows. */
const beside = /\.(pdiparams|data|npy|npz|py)$|init_net\.pb$|(^|\/)init_[^/]*\.netdef$/i;

/** The path that is converted: the folder of a SavedModel, or else the model's own file; "" if there are no files. */
export function sourceOf(files: readonly Upload[]): string {
  const saved = files.find((f) => f.path.endsWith("/saved_model.pb"));
  if (saved) return saved.path.slice(0, saved.path.lastIndexOf("/"));
  return (files.find((f) => !beside.test(f.path)) ?? files[0])?.path ?? "";
}

class Converting {
  /** The newest conversion. */
  job = $state.raw<Conversion | null>(null);
  error = $state("");
  /** True while files are sent, before the conversion runs. */
  sending = $state(false);
  private abort = new AbortController();

  get running(): boolean {
    return this.sending || this.job?.state === "running";
  }

  async start(order: StartConversion, files: readonly Upload[]): Promise<void> {
    this.error = "";
    this.job = null;
    this.sending = true;
    this.abort = new AbortController();
    try {
      this.job = await client.createConversion();
      const id = this.job.id;
      await putAll(`/api/conversions/${encodeURIComponent(id)}/files/`, files, () => undefined, this.abort.signal);
      const job = await client.startConversion(id, order);
      this.sending = false;
      await this.follow(job);
    } catch (e) {
      if (!this.abort.signal.aborted) this.error = errorText(e);
      void this.forget();
    } finally {
      this.sending = false;
    }
  }

  /** Looks at a conversion until it ends or is cancelled. */
  private async follow(job: Conversion): Promise<void> {
    if (this.job?.id !== job.id) return;
    this.job = job;
    while (job.state === "running") {
      await new Promise((done) => setTimeout(done, pause));
      if (this.job?.id !== job.id) return; // it was cancelled
      job = await client.conversion(job.id);
      if (this.job?.id !== job.id) return;
      this.job = job;
    }
  }

  /** Stops the conversion, or discards its model; the server removes what it has made. */
  async forget(): Promise<void> {
    const job = this.job;
    this.job = null;
    this.abort.abort();
    if (job) await client.dropConversion(job.id).catch((e: unknown) => (this.error = errorText(e)));
  }

  /** Opens the import dialog for the model. */
  add(): void {
    if (this.job?.path) importing.begin([{ path: this.job.path }]);
  }
}

export const converting = new Converting();
