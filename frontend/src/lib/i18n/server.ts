// Texts of the server in Chinese. server.zh.json has them by kind and by the format string in the server's Go code; a
// test of app/console finds formats that it lacks. In a translation, {1} is the first argument.
// An argument that is a text of the same kind is translated too.
import catalogue from "./server.zh.json";

export type ServerText = keyof typeof catalogue;

export const verb = /%[.\d]*[a-z]/;
const escaped = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The formats with arguments; those with the longest fixed text come first. */
function formats(texts: Record<string, string>) {
  const list = Object.entries(texts).filter(([format]) => verb.test(format)).map(([format, text]) => {
    const fixed = format.split(verb).map((part) => part.replaceAll("%%", "%"));
    return { pattern: new RegExp(`^${fixed.map(escaped).join("([^]*?)")}$`), length: fixed.join("").length, text };
  });
  return list.sort((a, b) => b.length - a.length);
}

const known = new Map<ServerText, ReturnType<typeof formats>>();

/** The Chinese text for one of the server; one that is not in the catalogue stays as it is. */
export function chinese(kind: ServerText, text: string): string {
  const texts: Record<string, string> = catalogue[kind];
  if (Object.hasOwn(texts, text)) return texts[text]!;
  if (!known.has(kind)) known.set(kind, formats(texts));
  for (const f of known.get(kind)!) {
    const m = f.pattern.exec(text);
    if (m) return f.text.replace(/\{(\d)\}/g, (_, n: string) => chinese(kind, m[Number(n)] ?? ""));
  }
  return text;
}
