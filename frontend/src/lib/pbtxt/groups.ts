// Writes instance groups into the text of a configuration. The rest of the text does not change.
import type { InstanceGroup } from "../api.gen";

export interface Range {
  from: number;
  to: number;
}

/** The ranges of a top-level field, from its name to the end of its value. Comments and strings are skipped. */
export function fieldRanges(text: string, name: string): Range[] {
  const re = /#[^\n]*|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|[\w.+-]+|[{}[\]<>:,;]/g;
  const out: Range[] = [];
  let depth = 0;
  let open: Range | null = null;
  for (const m of text.matchAll(re)) {
    const s = m[0];
    const end = m.index + s.length;
    if (s.startsWith("#")) continue;
    if (/^[{[<]$/.test(s)) depth++;
    else if (/^[}\]>]$/.test(s)) {
      depth = Math.max(0, depth - 1);
      if (depth === 0 && open) {
        out.push({ from: open.from, to: end });
        open = null;
      }
    } else if (depth === 0 && s === name) open = { from: m.index, to: end };
    else if (depth === 0 && s !== ":") open = null; // a scalar, or another field
  }
  return out;
}

/** One group as text, without default values. */
export function formatGroup(g: InstanceGroup): string {
  const parts: string[] = [];
  if (g.name) parts.push(`name: ${JSON.stringify(g.name)}`);
  if (g.count > 0) parts.push(`count: ${g.count}`);
  if (g.kind !== "KIND_AUTO") parts.push(`kind: ${g.kind}`);
  if (g.gpus.length > 0) parts.push(`gpus: [ ${g.gpus.join(", ")} ]`);
  if (g.hostPolicy) parts.push(`host_policy: ${JSON.stringify(g.hostPolicy)}`);
  if (g.passive) parts.push("passive: true");
  return parts.length > 0 ? `{ ${parts.join(" ")} }` : "{ }";
}

/** The text with these instance groups. Without groups the field is removed, and the default of the backend applies. */
export function withGroups(text: string, groups: readonly InstanceGroup[]): string {
  const value = groups.length === 0 ? "" : groups.length === 1 && groups[0] ? `instance_group [ ${formatGroup(groups[0])} ]` : `instance_group [\n${groups.map((g) => "  " + formatGroup(g)).join(",\n")}\n]`;
  const ranges = fieldRanges(text, "instance_group");
  const first = ranges[0];
  if (!first) return value === "" ? text : text.replace(/\n*$/, text.trim() === "" ? "" : "\n") + value + "\n";
  let out = text;
  for (const r of ranges.slice(1).reverse()) out = without(out, r);
  return value === "" ? without(out, first) : out.slice(0, first.from) + value + out.slice(first.to);
}

/** Removes a range, and its line if nothing else is on it. */
export function without(text: string, r: Range): string {
  const line = text.lastIndexOf("\n", r.from - 1) + 1;
  const nl = text.indexOf("\n", r.to);
  const end = nl < 0 ? text.length : nl;
  const alone = text.slice(line, r.from).trim() === "" && text.slice(r.to, end).replace(/[,;]/, "").trim() === "";
  return alone ? text.slice(0, line) + text.slice(Math.min(end + 1, text.length)) : text.slice(0, r.from) + text.slice(r.to);
}
