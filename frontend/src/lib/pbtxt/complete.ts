// Completion and help for a position in the configuration.
import type { ConfigField } from "../api.gen";
import { i18n, t } from "../i18n/index.svelte";
import { placeAt, type Schema } from "./path";

/** One completion. */
export interface Choice {
  label: string;
  /** The inserted text; "|" marks the position of the cursor. */
  insert: string;
  detail: string;
  doc: string;
  kind: "field" | "value";
}

/** The text that inserts a field: its name and an empty block, list, string or value, with "|" for the cursor. */
function opening(f: ConfigField): string {
  if (f.kind === "message" || f.kind === "map") return f.repeated || f.kind === "map" ? `${f.name} [\n  {\n    |\n  }\n]` : `${f.name} {\n  |\n}`;
  if (f.repeated) return `${f.name}: [ | ]`;
  return f.type === "string" || f.type === "bytes" ? `${f.name}: "|"` : `${f.name}: |`;
}

/** The type of a field as in the protobuf language. */
function typeText(f: ConfigField): string {
  if (f.kind === "map") return `map<${f.keyType}, ${f.type}>`;
  return f.repeated ? `repeated ${f.type}` : f.type;
}

/** The help text of a field. */
function fieldDoc(f: ConfigField): string {
  const said = (text: string) => i18n.server("help", text);
  const parts = [said(f.doc)];
  if (f.default) parts.push(t("help.default", { value: said(f.default) }));
  if (f.oneof) parts.push(t("help.oneof", { group: f.oneof }));
  if (f.support) parts.push(said(f.support));
  return parts.filter((p) => p !== "").join("\n\n");
}

/** The completions at the end of the text. */
export function choices(schema: Schema, text: string): Choice[] {
  const at = placeAt(text);
  if (at.field === null) {
    return (schema.message(at.path)?.fields ?? []).map((f) => ({
      label: f.name, insert: opening(f), detail: typeText(f), doc: fieldDoc(f), kind: "field" as const,
    }));
  }
  const f = schema.field(at.path, at.field);
  if (f?.type === "bool") return ["true", "false"].map((v) => ({ label: v, insert: v, detail: "bool", doc: "", kind: "value" as const }));
  const values = f?.kind === "enum" ? (schema.enums.get(f.type)?.values ?? []) : [];
  return values.map((v) => ({ label: v.name, insert: v.name, detail: String(v.number), doc: i18n.server("help", v.doc), kind: "value" as const }));
}

/** The help for a word. */
export interface Help {
  title: string;
  doc: string;
}

/** Help for the word at [from, to) of the text; null for an unknown word. */
export function help(schema: Schema, text: string, from: number, to: number): Help | null {
  const word = text.slice(from, to);
  const at = placeAt(text.slice(0, from));
  if (at.field === null) {
    const f = schema.field(at.path, word);
    return f ? { title: `${[...at.path, f.name].join(".")}: ${typeText(f)}`, doc: fieldDoc(f) } : null;
  }
  const f = schema.field(at.path, at.field);
  const v = f?.kind === "enum" ? schema.enums.get(f.type)?.values.find((x) => x.name === word) : undefined;
  return f && v ? { title: `${f.type} ${v.name} = ${v.number}`, doc: i18n.server("help", v.doc) || fieldDoc(f) } : null;
}
