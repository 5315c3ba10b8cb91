// Finds the message and the field at a position of the configuration. It reads only the text before
// the position and tolerates errors; the server has the real parser.
import type { ConfigField, ConfigFields, ConfigMessage } from "../api.gen";

export interface Place {
  /** Fields from the outermost open message to the innermost. */
  path: string[];
  /** The field whose value comes next; null where a field name is expected. */
  field: string | null;
}

type Token = { kind: "word" | "open" | "close" | "colon" | "sep" | "value"; text: string };

function* tokens(text: string): Generator<Token> {
  const re = /#[^\n]*|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|[A-Za-z_][\w.]*|[-+]?[\d.][\w.+-]*|[{}[\]<>:,;]/g;
  for (const m of text.matchAll(re)) {
    const s = m[0];
    if (s.startsWith("#")) continue;
    if (/^["'\d.+-]/.test(s)) yield { kind: "value", text: s };
    else if (/^[{[<]$/.test(s)) yield { kind: "open", text: s };
    else if (/^[}\]>]$/.test(s)) yield { kind: "close", text: s };
    else if (s === ":") yield { kind: "colon", text: s };
    else if (s === "," || s === ";") yield { kind: "sep", text: s };
    else yield { kind: "word", text: s };
  }
}

/** The position at the end of the text. */
export function placeAt(text: string): Place {
  const stack: { bracket: string; field: string }[] = [];
  let field: string | null = null;
  let afterColon = false;
  for (const t of tokens(text)) {
    const list = stack.at(-1)?.bracket === "[";
    switch (t.kind) {
      case "word":
        if (afterColon || list) {
          afterColon = false; // an enum value or a boolean
          if (!list) field = null;
        } else field = t.text;
        break;
      case "value":
        if (!list) field = null;
        afterColon = false;
        break;
      case "colon":
        afterColon = true;
        break;
      case "open":
        // In a list of messages, each message has the name of the list's field.
        stack.push({ bracket: t.text, field: field ?? stack.at(-1)?.field ?? "" });
        if (t.text === "[") break;
        field = null;
        afterColon = false;
        break;
      case "close":
        field = null;
        afterColon = false;
        stack.pop();
        if (stack.at(-1)?.bracket === "[") field = stack.at(-1)?.field ?? null;
        break;
      case "sep":
        if (!list) field = null;
        afterColon = false;
    }
  }
  const path: string[] = [];
  for (const s of stack) if (s.bracket !== "[") path.push(s.field);
  const inList = stack.at(-1)?.bracket === "[";
  return { path, field: afterColon || inList ? field : null };
}

/** The types of the configuration language, by name. */
export class Schema {
  private readonly messages: Map<string, ConfigMessage>;
  readonly enums: Map<string, ConfigFields["enums"][number]>;

  constructor(readonly fields: ConfigFields) {
    this.messages = new Map(fields.messages.map((m) => [m.name, m]));
    this.enums = new Map(fields.enums.map((e) => [e.name, e]));
  }

  /** The message at a path; undefined if there is none. */
  message(path: readonly string[]): ConfigMessage | undefined {
    let m = this.messages.get(this.fields.root);
    for (const name of path) {
      const f = m?.fields.find((x) => x.name === name);
      m = f && this.typeOf(f);
    }
    return m;
  }

  field(path: readonly string[], name: string): ConfigField | undefined {
    return this.message(path)?.fields.find((f) => f.name === name);
  }

  private typeOf(f: ConfigField): ConfigMessage | undefined {
    if (f.kind === "map") return mapEntry(f);
    return f.kind === "message" ? this.messages.get(f.type) : undefined;
  }
}

function mapEntry(f: ConfigField): ConfigMessage {
  const about = { repeated: false, keyType: "", oneof: "", default: "", support: "" };
  const scalar = /^(string|bool|bytes|u?int(32|64)|float|double)$/.test(f.type);
  return {
    name: `${f.name} entry`,
    doc: f.doc,
    fields: [
      { ...about, name: "key", type: f.keyType, kind: "scalar", doc: "" },
      { ...about, name: "value", type: f.type, kind: scalar ? "scalar" : "message", doc: "" },
    ],
  };
}
