import { StringStream } from "@codemirror/language";
import { describe, expect, it } from "vitest";
import type { ConfigField, ConfigFields, Fault } from "../api.gen";
import { choices, help } from "./complete";
import { apply, faultRange, offset } from "./edits";
import { pbtxtMode } from "./mode";
import { placeAt, Schema } from "./path";
import { nameProblem, rename } from "./rename";

const field = (name: string, type: string, kind: ConfigField["kind"], more: Partial<ConfigField> = {}): ConfigField => ({
  name, type, kind, repeated: false, keyType: "", oneof: "", default: "", doc: `doc of ${name}`, support: "", ...more,
});
const language: ConfigFields = {
  root: "ModelConfig",
  messages: [
    { name: "ModelConfig", doc: "", fields: [
      field("name", "string", "scalar"), field("max_batch_size", "int32", "scalar", { default: "0" }), field("input", "ModelInput", "message", { repeated: true }),
      field("version_policy", "VersionPolicy", "message"), field("parameters", "ModelParameter", "map", { repeated: true, keyType: "string" }),
    ] },
    { name: "ModelInput", doc: "", fields: [field("data_type", "DataType", "enum"), field("dims", "int64", "scalar", { repeated: true }), field("optional", "bool", "scalar")] },
    { name: "VersionPolicy", doc: "", fields: [field("latest", "Latest", "message", { oneof: "policy_choice" })] },
    { name: "Latest", doc: "", fields: [field("num_versions", "uint32", "scalar")] },
    { name: "ModelParameter", doc: "", fields: [field("string_value", "string", "scalar")] },
  ],
  enums: [{ name: "DataType", doc: "", values: [{ name: "TYPE_FP32", number: 11, doc: "single" }, { name: "TYPE_INT64", number: 8, doc: "" }] }],
};
const schema = new Schema(language);
const labels = (text: string) => choices(schema, text).map((c) => c.label);

describe("placeAt", () => {
  it.each([
    ["the start", "", [], null], ["after a field", 'name: "x"\n', [], null], ["a value", "name: ", [], "name"],
    ["inside a message", "version_policy { latest {", ["version_policy", "latest"], null], ["with a colon before the brace", "version_policy: {", ["version_policy"], null],
    ["in a list of messages", "input [ { data_type: TYPE_FP32 }, {", ["input"], null], ["between messages of a list", "input [ { }, ", [], "input"],
    ["in a list of numbers", "input { dims: [ 1, ", ["input"], "dims"], ["after a list", "input { dims: [ 1 ] ", ["input"], null],
    ["brackets in text and comments", 'name: "{[" # {\n', [], null], ["after an enum", "input { data_type: TYPE_FP32 ", ["input"], null],
    ["angle brackets", "input < ", ["input"], null], ["too many closing", "} } ", [], null],
  ])("%s", (_, text, path, f) => expect(placeAt(text)).toEqual({ path, field: f }));
});

describe("choices", () => {
  it("are the fields of the message", () => {
    expect(labels("")).toContain("max_batch_size");
    expect(labels("input [ {")).toEqual(["data_type", "dims", "optional"]);
    expect(labels("version_policy { latest { ")).toEqual(["num_versions"]);
  });
  it("are the values of an enum or boolean", () => {
    expect(labels("input { data_type: ")).toEqual(["TYPE_FP32", "TYPE_INT64"]);
    expect(labels("input { optional: ")).toEqual(["true", "false"]);
  });
  it("are key and value in a map, and the fields of its message", () => {
    expect(labels("parameters { ")).toEqual(["key", "value"]);
    expect(labels("parameters { value { ")).toEqual(["string_value"]);
  });
  it("are none where the language knows nothing", () => {
    expect(labels("nonsense { ")).toEqual([]);
    expect(labels("name: ")).toEqual([]);
  });
  it("open what they begin", () => {
    const by = Object.fromEntries(choices(schema, "").map((c) => [c.label, c.insert]));
    expect(by["name"]).toBe('name: "|"');
    expect(by["max_batch_size"]).toBe("max_batch_size: |");
    expect(by["version_policy"]).toContain("{\n");
    expect(by["input"]).toContain("[\n");
  });
});

describe("help", () => {
  const at = (text: string, word: string) => {
    const from = text.lastIndexOf(word);
    return help(schema, text, from, from + word.length);
  };
  it("explains fields with type, path and default", () => {
    expect(at("max_batch_size: 8", "max_batch_size")).toEqual({ title: "max_batch_size: int32", doc: "doc of max_batch_size\n\nDefault: 0" });
    expect(at("version_policy { latest { num_versions: 1", "num_versions")?.title).toBe("version_policy.latest.num_versions: uint32");
    expect(at("version_policy { latest {", "latest")?.doc).toContain("only one of them");
  });
  it("explains enum values", () => expect(at("input { data_type: TYPE_FP32", "TYPE_FP32")).toEqual({ title: "DataType TYPE_FP32 = 11", doc: "single" }));
  it("says nothing about other words", () => {
    expect(at('name: "digits"', "digits")).toBeNull();
    expect(at("what: 1", "what")).toBeNull();
  });
});

describe("places of faults", () => {
  const text = 'a\nname: "é😀x"\nlast';
  it.each([[1, 1, 0], [2, 1, 2], [2, 10, 12], [2, 99, 14], [3, 2, 16], [9, 1, 19], [0, 0, 0]])("line %s col %s", (l, c, want) => expect(offset(text, l, c)).toBe(want));

  const fault = (line: number, col: number, endLine: number, endCol: number): Fault => ({ line, col, endLine, endCol, severity: "error", message: "", advice: "", field: "", fixes: [] });
  it("marks what was found, a word where no end is given, the first line without a place", () => {
    expect(faultRange(text, fault(2, 1, 2, 5))).toEqual({ from: 2, to: 6 });
    expect(faultRange(text, fault(3, 1, 0, 0))).toEqual({ from: 15, to: 19 });
    expect(faultRange(text, fault(0, 0, 0, 0))).toEqual({ from: 0, to: 1 });
    expect(faultRange("", fault(1, 1, 1, 1))).toEqual({ from: 0, to: 0 });
  });
  it("applies all edits of a fix to the text that was checked", () => {
    const edits = [{ line: 3, col: 1, endLine: 3, endCol: 5, text: "end" }, { line: 1, col: 1, endLine: 1, endCol: 2, text: "first" }];
    expect(apply(text, edits)).toBe('first\nname: "é😀x"\nend');
  });
});

describe("colours", () => {
  const tokens = (line: string) => {
    const s = new StringStream(line, 2, 2);
    const state = pbtxtMode.startState!(2);
    const out: string[] = [];
    while (!s.eol()) {
      s.start = s.pos;
      const style = pbtxtMode.token(s, state);
      if (style) out.push(`${s.current()}=${style}`);
    }
    return out;
  };
  it.each([
    ['name: "a\\"b" # why', ["name=propertyName", '"a\\"b"=string', "# why=comment"]],
    ["dims: [ -1, 2.5e3 ]", ["dims=propertyName", "[=bracket", "-1=number", "2.5e3=number", "]=bracket"]],
    ["kind: KIND_CPU ok: true", ["kind=propertyName", "KIND_CPU=atom", "ok=propertyName", "true=bool"]],
    ["input [ { name: 'x", ["input=propertyName", "[=bracket", "{=bracket", "name=propertyName", "'x=string"]],
  ])("%s", (line, want) => expect(tokens(line)).toEqual(want));
});

describe("rename", () => {
  it.each([
    ["the outer name", 'name: "a"\ninput { name: "x" }', 'name: "b"\ninput { name: "x" }'],
    ["after an inner name", 'input [ { name: "x" } ]\nname:"a"', 'input [ { name: "x" } ]\nname:"b"'],
    ["none there", "max_batch_size: 8", "max_batch_size: 8"],
    ["a comment is no name", '# name: "no"\nname: \'a\'', '# name: "no"\nname: "b"'],
    ["another field", 'display_name: "x"', 'display_name: "x"'],
  ])("%s", (_, text, want) => expect(rename(text, "b")).toBe(want));

  it.each([["", "empty"], ["ok-1.2_x", null], ["a/b", "chars"], [".hidden", "chars"], ["..", "chars"], ["ü", "chars"]])("nameProblem(%j)", (n, want) => expect(nameProblem(n)).toBe(want));
});
