// The import in the dialog, and those that wait for it.
import type * as api from "./api.gen";
import { client, errorText } from "./api";
import type { Parcel } from "./drop";
import { live } from "./live.svelte";
import { uploadAll } from "./upload";
import { baseName } from "./window";

/**
 * The source of an import: files of the browser, a path on the server's machine, a sample in the program, or a model that came
 * with another.
 */
export type Job = Parcel | { path: string } | { sample: string } | { id: string; source: string };

class Importing {
  /** idle: no dialog. */
  phase = $state<"idle" | "upload" | "review" | "error">("idle");
  source = $state("");
  totalBytes = $state(0);
  sentBytes = $state(0);
  error = $state("");
  imp = $state.raw<api.Import | null>(null);
  waiting = $state.raw<Job[]>([]);
  /** The place of the import among those that were dropped, from 1, and their number. */
  place = $state({ at: 0, of: 0 });
  /** The code that the user trusted in the last attempt to load; a failed load does not ask again. */
  trusted = "";
  private abort = new AbortController();

  /** Opens the dialog for the first job; the others follow when it closes. */
  begin(jobs: Job[]): void {
    if (this.phase !== "idle") {
      this.waiting = [...this.waiting, ...jobs];
      this.place = { ...this.place, of: this.place.of + jobs.length };
      return;
    }
    this.place = { at: 1, of: jobs.length };
    this.next(jobs);
  }

  private next([first, ...rest]: Job[]): void {
    this.waiting = rest;
    if (!first) return;
    if ("path" in first) void this.run(baseName(first.path), () => client.createImport({ path: first.path }));
    else if ("sample" in first) void this.run(first.sample, () => client.createImport({ sample: first.sample }));
    else if ("id" in first) void this.run(first.source, () => client.configureImport(first.id, {})); // checked again, with the models that came before
    else void this.run(first.source, (signal) => this.upload(first, signal));
  }

  private async run(source: string, make: (signal: AbortSignal) => Promise<api.Import>): Promise<void> {
    this.abort = new AbortController();
    const signal = this.abort.signal;
    this.source = source;
    this.imp = null;
    this.error = "";
    this.trusted = "";
    this.sentBytes = this.totalBytes = 0;
    this.phase = "upload";
    try {
      const imp = await make(signal);
      if (signal.aborted) return;
      this.set(imp);
      this.phase = "review";
      if (imp.more.length > 0) this.begin(imp.more.map((id) => ({ id, source })));
    } catch (e) {
      if (signal.aborted) return;
      this.error = errorText(e);
      this.phase = "error";
    }
  }

  private async upload(p: Parcel, signal: AbortSignal): Promise<api.Import> {
    this.totalBytes = p.files.reduce((n, f) => n + f.file.size, 0);
    const imp = await client.createImport({ source: p.source, totalBytes: this.totalBytes });
    this.imp = imp;
    await uploadAll(imp.id, p.files, (n) => (this.sentBytes = n), signal);
    return client.analyzeImport(imp.id);
  }

  /** The newest state: that of the stream, unless it is older than the answer to the upload. */
  get current(): api.Import | null {
    const i = this.imp;
    const told = i && live.imports[i.id];
    return told && told.state !== "uploading" ? told : i;
  }

  /** Replaces the state of the stream by an answer of the server. */
  set(imp: api.Import): void {
    this.imp = imp;
    live.setImport(imp);
  }

  /** Closes the dialog, and discards the import on the server if it was not loaded. */
  async close(): Promise<void> {
    this.abort.abort();
    const imp = this.current;
    this.phase = "idle";
    this.imp = null;
    if (imp && imp.state !== "loaded" && imp.state !== "committing") {
      await client.dropImport(imp.id).catch(() => undefined); // the server discards it after an hour
    }
    if (this.waiting.length > 0) {
      this.place = { ...this.place, at: this.place.at + 1 };
      this.next(this.waiting);
    }
  }
}

export const importing = new Importing();
