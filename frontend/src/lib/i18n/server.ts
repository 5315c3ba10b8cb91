// Texts of the server in Chinese. server.zh.json has them by the format string in the server's Go code; a test of
// app/console finds formats that it lacks. In a translation, {1} is the first argument.
import catalogue from "./server.zh.json";

const escaped = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const entries = Object.entries(catalogue).map(([format, text]) => ({
  pattern: new RegExp(`^${format.split(/%[a-z]/).map(escaped).join("([^]*?)")}$`),
  fixed: format.replace(/%[a-z]/g, "").length,
  text,
}));
entries.sort((a, b) => b.fixed - a.fixed); // the most specific one first

/** The Chinese text for one of the server; one that is not in the catalogue stays as it is. */
export function chinese(text: string): string {
  for (const e of entries) {
    const m = e.pattern.exec(text);
    if (m) return e.text.replace(/\{(\d)\}/g, (_, n: string) => m[Number(n)] ?? "");
  }
  return text;
}
