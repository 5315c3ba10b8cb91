// The difference of two texts by lines (Myers' O(ND) algorithm), and its two forms of display.

export interface Line {
  kind: "same" | "add" | "del";
  text: string;
  /** Line numbers from 1; 0 where the line is not on that side. */
  before: number;
  after: number;
}

/** Above this number of edits, the texts count as completely different, because the cost grows with the square. */
const maxSteps = 2000;

const split = (s: string) => (s === "" ? [] : s.replace(/\n$/, "").split("\n"));

/** The lines of both texts, merged. */
export function diffLines(before: string, after: string): Line[] {
  const a = split(before);
  const b = split(after);
  const out: Line[] = [];
  let i = 0;
  let j = 0;
  for (const step of script(a, b)) {
    if (step === "same") out.push({ kind: "same", text: a[i] ?? "", before: ++i, after: ++j });
    else if (step === "del") out.push({ kind: "del", text: a[i] ?? "", before: ++i, after: 0 });
    else out.push({ kind: "add", text: b[j] ?? "", before: 0, after: ++j });
  }
  return out;
}

function script(a: string[], b: string[]): Line["kind"][] {
  const trace: Map<number, number>[] = [];
  const v = new Map<number, number>([[1, 0]]);
  for (let d = 0; d <= a.length + b.length; d++) {
    if (d > maxSteps) return [...a.map(() => "del" as const), ...b.map(() => "add" as const)];
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1));
      let x = down ? (v.get(k + 1) ?? 0) : (v.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      v.set(k, x);
      if (x >= a.length && x - k >= b.length) return walk(trace, a.length, b.length);
    }
  }
  return [];
}

/** Walks the trace back from the end to the start. */
function walk(trace: Map<number, number>[], x: number, y: number): Line["kind"][] {
  const out: Line["kind"][] = [];
  for (let d = trace.length - 1; d >= 0; d--) {
    const v = trace[d] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1));
    const prevK = down ? k + 1 : k - 1;
    const prevX = d === 0 ? 0 : (v.get(prevK) ?? 0);
    const prevY = d === 0 ? 0 : prevX - prevK;
    while (x > prevX && y > prevY) {
      out.push("same");
      x--;
      y--;
    }
    if (d > 0) out.push(down ? "add" : "del");
    x = prevX;
    y = prevY;
  }
  return out.reverse();
}

/** A run of lines, or the number of unchanged lines that are folded. */
export type Block = { lines: Line[] } | { folded: number };

/** Keeps `context` unchanged lines around changes and folds the rest. */
export function fold(lines: Line[], context = 3): Block[] {
  const keep = lines.map(() => false);
  lines.forEach((l, i) => {
    if (l.kind === "same") return;
    for (let k = Math.max(0, i - context); k <= Math.min(lines.length - 1, i + context); k++) keep[k] = true;
  });
  const out: Block[] = [];
  for (let i = 0; i < lines.length; ) {
    let j = i;
    while (j < lines.length && keep[j] === keep[i]) j++;
    const run = lines.slice(i, j);
    // Folding a single line would save no space.
    out.push(keep[i] || run.length === 1 ? { lines: run } : { folded: run.length });
    i = j;
  }
  return out;
}

/** A row of the side-by-side form. */
export interface Row {
  left: Line | null;
  right: Line | null;
}

/** Pairs removed lines with the added lines that follow them. */
export function sideBySide(lines: Line[]): Row[] {
  const out: Row[] = [];
  for (let i = 0; i < lines.length; ) {
    const l = lines[i];
    if (l?.kind === "same") {
      out.push({ left: l, right: l });
      i++;
      continue;
    }
    const del: Line[] = [];
    const add: Line[] = [];
    for (; i < lines.length && lines[i]?.kind !== "same"; i++) {
      const c = lines[i];
      if (c) (c.kind === "del" ? del : add).push(c);
    }
    for (let k = 0; k < Math.max(del.length, add.length); k++) out.push({ left: del[k] ?? null, right: add[k] ?? null });
  }
  return out;
}

export const counts = (lines: Line[]) => ({
  added: lines.filter((l) => l.kind === "add").length,
  removed: lines.filter((l) => l.kind === "del").length,
});
