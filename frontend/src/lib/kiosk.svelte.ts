// The state of the public page. It asks the server every second; a page without a reader does not ask.
import type { KioskModel } from "./api.gen";
import { client, errorText } from "./api";

const every = 1000; // milliseconds

class Kiosk {
  models = $state.raw<KioskModel[] | null>(null);
  /** The page's address for other devices; empty if they cannot reach it. */
  url = $state("");
  /** Why the server does not answer; empty if it does. */
  lost = $state("");
  private started = 0;

  /** Follows the server until the returned function is called. */
  follow(): () => void {
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    const next = async () => {
      if (!document.hidden) await this.ask();
      if (!over) timer = setTimeout(() => void next(), every);
    };
    void next();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }

  private async ask(): Promise<void> {
    try {
      const got = await client.kiosk();
      if (this.started !== 0 && got.startedMs !== this.started) location.reload(); // another program may have another page
      this.started = got.startedMs;
      this.models = got.models;
      this.url = got.url;
      this.lost = "";
    } catch (e) {
      this.lost = errorText(e);
    }
  }
}

export const kiosk = new Kiosk();

/** The model that an address such as #/digits names; empty: none. */
export function modelIn(hash: string): string {
  try {
    return decodeURIComponent(hash.replace(/^#\/?/, ""));
  } catch {
    return ""; // a broken escape
  }
}
