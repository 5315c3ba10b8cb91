// Converts positions from the server (lines and columns from 1, columns in code points) to offsets, and applies fixes.
import type { Edit, Fault } from "../api.gen";
import { i18n } from "../i18n/index.svelte";

/** What is wrong and how to correct it, in the page's language. */
export function faultText(f: Fault): string {
  return [f.message, f.advice].filter((s) => s !== "").map((s) => i18n.server("faults", s)).join(i18n.language === "zh" ? "；" : "; ");
}

/** The offset of a line and column. A column beyond the line becomes its end, a line beyond the text the end of the text. */
export function offset(text: string, line: number, col: number): number {
  if (line < 1) return 0;
  let start = 0;
  for (let l = 1; l < line; l++) {
    const nl = text.indexOf("\n", start);
    if (nl < 0) return text.length;
    start = nl + 1;
  }
  const nl = text.indexOf("\n", start);
  const end = nl < 0 ? text.length : nl;
  let at = start;
  for (let c = 1; c < col && at < end; c++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return Math.min(at, end);
}

/** The range of a fault, at least one character if possible. A fault without a position marks the first line. */
export function faultRange(text: string, f: Fault): { from: number; to: number } {
  const line = f.line || 1;
  const from = offset(text, line, f.line ? f.col : 1);
  let to = f.endLine ? offset(text, f.endLine, f.endCol) : from;
  if (to <= from) to = f.line ? wordEnd(text, from) : offset(text, 1, Infinity);
  return { from, to: Math.max(to, from) };
}

function wordEnd(text: string, from: number): number {
  const m = /^(?:[\w.]+|\S)/.exec(text.slice(from, from + 200));
  return from + (m ? m[0].length : 0);
}

/** A replacement of the text between two offsets. */
export interface Change {
  from: number;
  to: number;
  insert: string;
}

/** The edits of a fix as changes of the text, in ascending order. */
export function changes(text: string, edits: readonly Edit[]): Change[] {
  return edits
    .map((e) => ({ from: offset(text, e.line, e.col), to: offset(text, e.endLine, e.endCol), insert: e.text }))
    .sort((a, b) => a.from - b.from);
}

/** The text after the edits of a fix, which must not overlap. */
export function apply(text: string, edits: readonly Edit[]): string {
  let out = text;
  for (const c of changes(text, edits).reverse()) out = out.slice(0, c.from) + c.insert + out.slice(c.to);
  return out;
}
