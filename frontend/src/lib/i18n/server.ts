// Texts of the server in Chinese. server.zh.json has them by kind and by the format string in the server's Go code; a
// test of app/console finds formats that it lacks. In a translation, {1} is the first argument.
// An argument that is a text of the same kind is translated too. What libraries and models say stays as it is.
import catalogue from "./server.zh.json";

export type ServerText = keyof typeof catalogue;

export const verb = /%[.\d]*[a-z]/;
const escaped = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The formats with arguments; those with the longest fixed text come first. */
function formats(texts: Record<string, string>) {
  const list = Object.entries(texts).filter(([format]) => verb.test(format)).map(([format, text]) => {
    const fixed = format.trim().split(verb).map((part) => part.replaceAll("%%", "%"));
    return { pattern: new RegExp(`^${fixed.map(escaped).join("([^]*?)")}$`), length: fixed.join("").length, format, text };
  });
  return list.sort((a, b) => b.length - a.length || (a.format < b.format ? -1 : 1));
}

/** Where a text is looked for next: the parts of the server pass each other's errors on. */
const next: Partial<Record<ServerText, ServerText[]>> = {
  reasons: ["errors", "engine", "faults"], errors: ["reasons", "engine", "faults"], events: ["reasons", "engine", "faults"], engine: ["faults"],
};

const known = new Map<ServerText, ReturnType<typeof formats>>();

/** The Chinese text for one of the server; one that is not in the catalogue stays as it is. */
export function chinese(kind: ServerText, text: string): string {
  if (text.trim() !== text) return text.replace(text.trim(), (s) => chinese(kind, s));
  const others = next[kind] ?? [];
  let found = lookedUp(kind, kind, text, 0);
  for (const other of others) found ??= lookedUp(other, kind, text, 12); // shorter ones would match texts of libraries
  return found ?? text;
}

/** A text of one kind of the catalogue; formats with less fixed text than least are not tried. kind is that of its arguments. */
function lookedUp(from: ServerText, kind: ServerText, text: string, least: number): string | undefined {
  const texts: Record<string, string> = catalogue[from];
  if (Object.hasOwn(texts, text)) return texts[text];
  if (!known.has(from)) known.set(from, formats(texts));
  for (const f of known.get(from)!) {
    if (f.length < least) break;
    const m = f.pattern.exec(text);
    if (m) return f.text.replace(/\{(\d)\}/g, (_, n: string) => chinese(kind, m[Number(n)] ?? ""));
  }
  return undefined;
}
