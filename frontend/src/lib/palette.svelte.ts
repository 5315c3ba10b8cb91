// The command palette: pages, models and actions, found by a part of their name.

class Palette {
  open = $state(false);
}

export const palette = new Palette();

export interface Command {
  label: string;
  hint: string;
  run: () => void;
}

/**
 * The commands whose label contains the letters of the query in order, or its words in any order. Labels with the whole
 * query come first, then those with all words.
 */
export function search(commands: readonly Command[], query: string): Command[] {
  const q = query.trim().toLowerCase();
  if (q === "") return [...commands];
  const scored = commands.flatMap((c) => {
    const s = score(c.label.toLowerCase(), q);
    return s === null ? [] : [{ c, s }];
  });
  return scored.sort((a, b) => a.s - b.s).map((x) => x.c);
}

function score(label: string, q: string): number | null {
  const at = label.indexOf(q);
  if (at >= 0) return at;
  const words = q.split(/\s+/);
  if (words.every((w) => label.includes(w))) return 500 + label.length;
  let i = 0;
  for (const ch of label) if (ch === q[i]) i++;
  return i === q.length ? 1000 + label.length : null;
}
