// Finds texts of the page that are not from the catalogue, so that they stay English on a Chinese page.
import { parse } from "svelte/compiler";
import { describe, expect, it } from "vitest";

/** Attributes whose values are read or heard. */
const shown = new Set(["title", "alt", "label", "placeholder", "aria-label", "aria-description", "aria-roledescription", "aria-valuetext", "data-label"]);
/** Elements with names of files, code and keys. */
const literal = new Set(["code", "pre", "kbd", "style", "script"]);
/** Names and units, which are the same in all languages. */
const names = new Set(["CSV", "PNG", "JSON", "Nereid", "GPU", "ONNX", "IR", "opset", "FLOP", "TLS", "RGB", "NCHW", "NHWC", "HTTP", "SHA", "Hz", "px", "Ctrl", "Enter"]);
/** Examples of what can be typed, and names of files. */
const examples = new Set(["my_request", "torchvision:resnet18", "hf:owner/name", "password, *_secret", "https://", '{"temperature": 0.5, "stream": true}', "golden/", "requests/", ".json", "config.pbtxt"]);

/** What is read of a node of the syntax tree. */
interface Node { type?: string; name?: unknown; value?: unknown; data?: string; expression?: unknown; quasis?: { value: { cooked: string } }[]; expressions?: unknown[]; consequent?: unknown; alternate?: unknown; left?: unknown; right?: unknown; operator?: string }
const isNode = (v: unknown): v is Node => typeof v === "object" && v !== null;

/** The texts of a component that people see and that are no names. */
function hardcoded(source: string): string[] {
  const found: string[] = [];
  const add = (text: string) => {
    const words = text.match(/\p{L}{2,}/gu) ?? [];
    if (!examples.has(text.trim()) && words.some((w) => !names.has(w))) found.push(text.trim());
  };
  /** value is the result of an expression: a literal, or one of several. */
  const result = (value: unknown): void => {
    if (!isNode(value)) return;
    if (value.type === "Literal" && typeof value.value === "string") add(value.value);
    if (value.type === "TemplateLiteral") {
      for (const q of value.quasis ?? []) add(q.value.cooked);
      for (const e of value.expressions ?? []) result(e);
    }
    if (value.type === "ConditionalExpression") for (const e of [value.consequent, value.alternate]) result(e);
    if (value.type === "LogicalExpression" || value.type === "BinaryExpression") for (const e of [value.left, value.right]) if (value.operator !== "===" && value.operator !== "!==") result(e);
  };
  const walk = (v: unknown): void => {
    if (Array.isArray(v)) return v.forEach(walk);
    if (!isNode(v) || literal.has(String(v.name))) return;
    if (v.type === "Text") return add(v.data ?? "");
    if (v.type === "ExpressionTag") return result(v.expression);
    if (v.type === "Attribute") {
      if (!shown.has(String(v.name)) || v.value === true) return;
      for (const part of [v.value].flat() as Node[]) {
        if (part.type === "Text") add(part.data ?? "");
        else result(part.expression);
      }
      return;
    }
    for (const [key, child] of Object.entries(v)) if (key !== "expression" && key !== "metadata") walk(child);
  };
  walk(parse(source, { modern: true }).fragment);
  return found;
}

describe("texts that are not from the catalogue", () => {
  it.each([
    ["a text", "<p>Not translated</p>", ["Not translated"]],
    ["a text beside one of the catalogue", "<p>{t('a')} of them</p>", ["of them"]],
    ["an attribute", '<input placeholder="Type here" />', ["Type here"]],
    ["an attribute with an expression", '<b aria-label="Close {name}"></b>', ["Close"]],
    ["a choice of two", '<p>{on ? "Stop it" : t("start")}</p>', ["Stop it"]],
    ["a template", "<p title={`${n} rows`}></p>", ["rows"]],
    ["in a block", "{#if a}{#each b as c}<p>Row {c}</p>{/each}{/if}", ["Row"]],
    ["what a parameter of the catalogue is", '<p>{t("of", { what: "x y" })}</p>', []],
    ["code, names and units", "<code>ls here</code><p>GPU {n} Hz</p>", []],
    ["a class", '<p class="row wide"></p>', []],
  ])("are found: %s", (_, source, want) => expect(hardcoded(source)).toEqual(want));

  const sources = import.meta.glob<string>("../../**/*.svelte", { query: "?raw", import: "default", eager: true });
  it("are in no component", () => {
    expect(Object.keys(sources).length).toBeGreaterThan(80);
    expect(Object.entries(sources).flatMap(([file, source]) => hardcoded(source).map((text) => `${file}: ${text}`))).toEqual([]);
  });
});
