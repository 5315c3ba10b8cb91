// One asynchronous value with its loading and error states.
import { errorText } from "./api";

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state<string | null>(null);
  busy = $state(false);
  private abort: AbortController | null = null;

  /** Fetches the value again. The old value stays until then. Returns false on failure, or if a later call replaced this one. */
  async run(fetcher: (signal: AbortSignal) => Promise<T>): Promise<boolean> {
    this.abort?.abort();
    const ctl = new AbortController();
    this.abort = ctl;
    this.busy = true;
    try {
      const v = await fetcher(ctl.signal);
      if (ctl.signal.aborted) return false;
      this.value = v;
      this.error = null;
      return true;
    } catch (e) {
      if (!ctl.signal.aborted) this.error = errorText(e);
      return false;
    } finally {
      if (this.abort === ctl) this.busy = false;
    }
  }

  /** Aborts the current call, if any. The value stays. */
  cancel(): void {
    this.abort?.abort();
  }
}
