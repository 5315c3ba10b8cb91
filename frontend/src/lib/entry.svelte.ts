// Whether the server lets this browser in. It knows its own user's browsers; others need a link or a token.
import { client, onRefused } from "./api";
import { live } from "./live.svelte";
import { rights } from "./rights.svelte";

/** The secret in a link of `nereid link`, or the text itself, which may be a token. */
const secretOf = (text: string) => text.trim().replace(/^.*#\/open\//, "");

class Entry {
  /** The server has refused this browser. */
  closed = $state(false);

  constructor() {
    onRefused(() => (this.closed = true));
  }

  /** Starts the page. If its address is a link of `nereid link`, the link is used first, and leaves the address. */
  async begin(): Promise<void> {
    if (location.hash.startsWith("#/open/")) {
      const secret = secretOf(location.hash);
      history.replaceState(null, "", "#/models");
      await this.open(secret).catch(() => undefined); // the page then asks
    }
    this.start();
  }

  private start(): void {
    live.start();
    rights.read().catch(() => undefined); // without an answer, the server refuses what this browser may not do
  }

  /** Opens a session for the secret of a link, or for a token. It throws if the server refuses it. */
  async open(text: string): Promise<void> {
    await client.openSession({ secret: secretOf(text) });
    this.closed = false;
    this.start();
  }
}

export const entry = new Entry();
