// The texts of the page by key, in the chosen language. A key that is missing in English does not compile.
import { read, write } from "../prefs.svelte";
import { en } from "./en";
import type { ServerText } from "./server";
import { zh } from "./zh";

export type Key = keyof typeof en;
export type Language = "en" | "zh";
export const languages: readonly { id: Language; name: string }[] = [
  { id: "en", name: "English" },
  { id: "zh", name: "简体中文" },
];

const catalogues: Record<Language, Record<Key, string>> = { en, zh };

function first(): Language {
  const kept = read("nereid.language");
  if (kept === "en" || kept === "zh") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

class I18n {
  language = $state<Language>(first());
  #server = $state.raw<typeof import("./server") | null>(null);

  constructor() {
    void this.load();
  }

  set(l: Language): void {
    this.language = l;
    write("nereid.language", l);
    document.documentElement.lang = l === "zh" ? "zh-CN" : "en";
    void this.load();
  }

  /** Loads the catalogue of the server's texts. English pages do not need one. */
  async load(): Promise<void> {
    if (this.language === "zh") this.#server ??= await import("./server").catch(() => null);
  }

  /** A text of the server in the page's language. It stays English until the catalogue is loaded, or if it has none. */
  server(kind: ServerText, text: string): string {
    return this.language === "zh" && this.#server ? this.#server.chinese(kind, text) : text;
  }
}

export const i18n = new I18n();

/** An error of the server in the page's language. */
export const serverError = (text: string): string => i18n.server("errors", text);

/** Why something that a person started has failed, in the page's language. */
export const serverReason = (text: string): string => i18n.server("reasons", text);
document.documentElement.lang = i18n.language === "zh" ? "zh-CN" : "en";

/** The text of a key; {name} in it is replaced by params.name. */
export function t(key: Key, params: Record<string, string | number> = {}): string {
  return fill(catalogues[i18n.language][key], params);
}

/**
 * Replaces parameters in a text; {n:model|models} is the first word if n is 1, else the second. A missing parameter stays
 * visible.
 */
export function fill(text: string, params: Record<string, string | number>): string {
  return text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (m, k: string, one?: string, more?: string) => {
    const value = String(params[k] ?? m);
    return one === undefined || more === undefined ? value : value === "1" ? one : more;
  });
}
