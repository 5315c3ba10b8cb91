// A model that the server fetches from a hub, a registry, a package or a URL. When it is there, the import dialog opens.
import { client, errorText } from "./api";
import type { Download } from "./api.gen";
import { importing } from "./importing.svelte";

/** How often a running download is looked at, in milliseconds. */
const pause = 500;

class Getting {
  /** The newest download, running or failed. */
  job = $state.raw<Download | null>(null);
  error = $state("");

  get running(): boolean {
    return this.job?.state === "running";
  }

  async start(source: string): Promise<void> {
    this.job = null;
    this.error = "";
    try {
      await this.follow(await client.startDownload({ source }));
    } catch (e) {
      this.job = null;
      this.error = errorText(e);
    }
  }

  /** Looks at a download until it ends or is cancelled. */
  private async follow(job: Download): Promise<void> {
    this.job = job;
    while (job.state === "running") {
      await new Promise((done) => setTimeout(done, pause));
      if (this.job?.id !== job.id) return; // it was cancelled
      job = await client.download(job.id);
      if (this.job?.id !== job.id) return;
      this.job = job;
    }
    if (job.state === "done") {
      this.job = null;
      importing.begin(job.models.map((m) => ({ path: m.path })));
    }
  }

  /** Stops the download; the server removes what it has fetched. */
  async cancel(): Promise<void> {
    const job = this.job;
    this.job = null;
    if (job) await client.cancelDownload(job.id).catch((e: unknown) => (this.error = errorText(e)));
  }
}

export const getting = new Getting();
