// What this browser may do. Its own user may do everything; a token may open less.
import { client } from "./api";
import type { Tab } from "./router.svelte";

/** The tabs of a model that a token with the scope view opens. Those to try need infer too. */
const viewed: readonly Tab[] = ["overview", "charts"];

class Rights {
  scopes = $state<readonly string[]>(["admin"]);

  /** Whether it may change anything. */
  get change(): boolean {
    return this.scopes.includes("admin");
  }

  /** Whether it may send requests to models. */
  get infer(): boolean {
    return this.change || this.scopes.includes("infer");
  }

  tab(tab: Tab): boolean {
    return this.change || viewed.includes(tab) || (this.infer && tab === "try");
  }

  /** Asks the server. It fails if the server does not let this browser in; the page then asks for a token. */
  async read(): Promise<void> {
    this.scopes = (await client.server()).scopes;
  }
}

export const rights = new Rights();
