// The fields of a configuration text with their places, and changes of single fields. The rest of the text, with its
// comments and order, does not change.
import { without } from "./groups";

/** A field, or a message in a list, whose name is then that of the list. */
export interface Field {
  name: string;
  from: number;
  to: number;
  /** The value as written, with its brackets. */
  value: string;
  valueFrom: number;
  /** The fields of a message; null for scalars and lists. */
  fields: Field[] | null;
  /** The messages of a list. */
  items: Field[];
}

interface Token {
  s: string;
  from: number;
  to: number;
}

const scan = /#[^\n]*|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|[\w.+-]+|[{}[\]<>:,;]/g;

/** Reports whether the brackets of a text match, so that its fields have an end. */
export function closed(text: string): boolean {
  const pairs: Record<string, string> = { "}": "{", "]": "[", ">": "<" };
  const open: string[] = [];
  for (const [s] of text.matchAll(scan)) {
    if (/^[{[<]$/.test(s)) open.push(s);
    else if (pairs[s] && open.pop() !== pairs[s]) return false;
  }
  return open.length === 0;
}

/** Reads the fields of a text that the server could read. Of other texts it reads what it can. */
export function parse(text: string): Field[] {
  const tokens: Token[] = [...text.matchAll(scan)].filter((m) => !m[0].startsWith("#")).map((m) => ({ s: m[0], from: m.index, to: m.index + m[0].length }));
  let i = 0;
  const opens = (s: string | undefined) => s === "{" || s === "<";

  function block(name: string, from: number): Field {
    const at = tokens[i++]?.from ?? from;
    const fields = list();
    const to = tokens[i++]?.to ?? text.length;
    return { name, from, to, value: text.slice(at, to), valueFrom: at, fields, items: [] };
  }
  function value(name: string, from: number): Field {
    const first = tokens[i];
    if (opens(first?.s)) return block(name, from);
    const items: Field[] = [];
    if (first?.s === "[") {
      for (i++; i < tokens.length && tokens[i]?.s !== "]"; ) {
        if (opens(tokens[i]?.s)) items.push(block(name, tokens[i]?.from ?? 0));
        else i++;
      }
      i++;
    } else {
      for (i++; /^["']/.test(first?.s ?? "") && /^["']/.test(tokens[i]?.s ?? ""); ) i++; // strings side by side are one
    }
    const at = first?.from ?? from;
    const to = tokens[i - 1]?.to ?? text.length;
    return { name, from, to, value: text.slice(at, to), valueFrom: at, fields: null, items };
  }
  function list(): Field[] {
    const out: Field[] = [];
    while (i < tokens.length && !/^[}>]$/.test(tokens[i]?.s ?? "")) {
      const t = tokens[i++];
      if (!t || !/^\w/.test(t.s)) continue;
      if (tokens[i]?.s === ":") i++;
      out.push(value(t.s, t.from));
    }
    return out;
  }
  return list();
}

/** The last field at a path; undefined if there is none. */
export function find(fields: readonly Field[], path: readonly string[]): Field | undefined {
  let at: Field | undefined;
  for (const name of path) at = (at ? (at.fields ?? []) : fields).findLast((f) => f.name === name);
  return at;
}

/** All messages of a repeated field, from lists and from single fields. */
export const messages = (fields: readonly Field[], name: string): Field[] => fields.filter((f) => f.name === name).flatMap((f) => (f.fields ? [f] : f.items));

const written = (name: string, value: string) => (value.startsWith("{") ? `${name} ${value}` : `${name}: ${value}`);

/** The text with a field at the end of a message. */
function inserted(text: string, at: Field, line: string): string {
  const close = at.valueFrom + at.value.length - 1;
  if (!at.value.includes("\n")) return `${text.slice(0, close).trimEnd()} ${line} ${text.slice(close)}`;
  const start = text.lastIndexOf("\n", close) + 1;
  const indent = /^[ \t]*/.exec(text.slice(start, close))?.[0] ?? "";
  const alone = text.slice(start, close).trim() === "";
  return alone ? `${text.slice(0, start)}${indent}  ${line}\n${text.slice(start)}` : `${text.slice(0, close).trimEnd()}\n${indent}  ${line}\n${indent}${text.slice(close)}`;
}

/** The text with a value at a path, such as "8", "[ 1, 2 ]" or "{ }"; null removes the field. base: the path is inside it. */
export function withField(text: string, path: readonly string[], value: string | null, base?: Field): string {
  const fields = base ? (base.fields ?? []) : parse(text);
  const there = find(fields, path);
  if (there) {
    if (value === null) return without(text, there);
    return text.slice(0, there.valueFrom) + value + text.slice(there.to);
  }
  if (value === null) return text;
  for (let n = path.length - 1; n >= 0; n--) {
    const parent = n > 0 ? find(fields, path.slice(0, n)) : base;
    if (n > 0 && !parent?.fields) continue;
    const line = path.slice(n).reduceRight((v, name, i) => (i === path.length - n - 1 ? written(name, v) : `${name} { ${v} }`), value);
    if (parent) return inserted(text, parent, line);
    return `${text.replace(/\n*$/, text.trim() === "" ? "" : "\n")}${line}\n`;
  }
  return text;
}

/** The indentation of the line with a place. */
const indentAt = (text: string, at: number) => /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", at - 1) + 1))?.[0] ?? "";

/**
 * The text with one more message of a repeated field, after the others. value is the message with its brackets; its
 * lines are indented as their place needs. base: the field is in it.
 */
export function withMessage(text: string, name: string, value: string, base?: Field): string {
  const last = (base ? (base.fields ?? []) : parse(text)).findLast((f) => f.name === name);
  const indented = (by: string, v: string) => v.replaceAll("\n", `\n${by}`);
  const item = last?.items.at(-1);
  if (last && item) {
    const by = indentAt(text, item.from);
    const gap = last.value.includes("\n") ? `\n${by}` : " ";
    return `${text.slice(0, item.to)},${gap}${indented(by, value)}${text.slice(item.to)}`;
  }
  if (last && !last.fields) return text.slice(0, last.from) + indented(indentAt(text, last.from), written(name, value)) + text.slice(last.to); // an empty list
  if (!base) return `${text.replace(/\n*$/, text.trim() === "" ? "" : "\n")}${written(name, value)}\n`;
  const by = base.value.includes("\n") ? `${indentAt(text, base.to - 1)}  ` : "";
  return inserted(text, base, indented(by, written(name, value)));
}

/** The text without one message of a repeated field; the field goes with its last message. base: the field is in it. */
export function withoutMessage(text: string, name: string, n: number, base?: Field): string {
  const fields = base ? (base.fields ?? []) : parse(text);
  const m = messages(fields, name)[n];
  if (!m) return text;
  const field = fields.find((f) => f.name === name && (f === m || f.items.includes(m)));
  if (!field || field === m || field.items.length === 1) return field ? without(text, field) : text;
  const after = /^\s*,/.exec(text.slice(m.to));
  if (after) return text.slice(0, m.from) + text.slice(m.to + after[0].length).trimStart();
  const before = /,?\s*$/.exec(text.slice(0, m.from));
  return text.slice(0, before?.index ?? m.from) + text.slice(m.to);
}
