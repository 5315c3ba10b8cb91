// Small changes of the configuration text that the page makes itself.

/** The text with a new value of its top-level name field; unchanged if it has none. */
export function rename(text: string, name: string): string {
  let depth = 0;
  const re = /#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{[]|[}\]]|\bname\s*:\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')/g;
  for (const m of text.matchAll(re)) {
    const s = m[0];
    if (s === "{" || s === "[") depth++;
    else if (s === "}" || s === "]") depth--;
    else if (m[1] !== undefined && depth === 0) {
      const at = m.index + s.length - m[1].length;
      return text.slice(0, at) + JSON.stringify(name) + text.slice(at + m[1].length);
    }
  }
  return text;
}

/** null if the name is valid as a folder and in a URL, otherwise the fault. */
export function nameProblem(name: string): "empty" | "chars" | null {
  if (name === "") return "empty";
  return /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name) ? null : "chars";
}
