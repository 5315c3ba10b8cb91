// Preferences in the browser: theme and language. Without storage they last until the page closes.

export type Theme = "system" | "light" | "dark";

export function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // no storage: the preference lasts until the page closes
  }
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");

class Prefs {
  theme = $state<Theme>("system");
  private systemDark = $state(dark.matches);

  constructor() {
    const t = read("nereid.theme");
    if (t === "light" || t === "dark") this.theme = t;
    dark.addEventListener("change", (e) => (this.systemDark = e.matches));
  }

  get isDark(): boolean {
    return this.theme === "dark" || (this.theme === "system" && this.systemDark);
  }

  setTheme(t: Theme): void {
    this.theme = t;
    write("nereid.theme", t);
    if (t === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = t;
  }
}

export const prefs = new Prefs();
