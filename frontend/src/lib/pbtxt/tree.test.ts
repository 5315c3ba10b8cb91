import { describe, expect, it } from "vitest";
import { closed, find, messages, parse, withField, withoutMessage } from "./tree";

const text = `# a model
name: "m" # its name
max_batch_size: 8
dynamic_batching {
  # wait a little
  max_queue_delay_microseconds: 100 # not long
  preferred_batch_size: [ 4, 8 ]
}
version_policy: { latest { num_versions: 2 } }
model_warmup [
  { name: "a {" batch_size: 1 },
  { name: 'b' } # second
]
model_warmup { name: "c" }
`;

describe("the fields of a text", () => {
  it("are found with their values", () => {
    const f = parse(text);
    expect(find(f, ["max_batch_size"])?.value).toBe("8");
    expect(find(f, ["dynamic_batching", "preferred_batch_size"])?.value).toBe("[ 4, 8 ]");
    expect(find(f, ["version_policy", "latest", "num_versions"])?.value).toBe("2");
    expect(find(f, ["dynamic_batching", "num_versions"])).toBeUndefined();
    expect(messages(f, "model_warmup").map((m) => find(m.fields ?? [], ["name"])?.value)).toEqual(['"a {"', "'b'", '"c"']);
  });

  it("change in place, and comments and order stay", () => {
    expect(withField(text, ["max_batch_size"], "16")).toBe(text.replace("size: 8", "size: 16"));
    expect(withField(text, ["dynamic_batching", "max_queue_delay_microseconds"], "7")).toBe(text.replace("microseconds: 100", "microseconds: 7"));
    expect(withField(text, ["dynamic_batching", "preferred_batch_size"], null)).toBe(text.replace("  preferred_batch_size: [ 4, 8 ]\n", ""));
    expect(withField(text, ["version_policy"], "{ all { } }")).toBe(text.replace("{ latest { num_versions: 2 } }", "{ all { } }"));
  });

  it("are added where they belong", () => {
    expect(withField(text, ["dynamic_batching", "preserve_ordering"], "true")).toBe(text.replace("8 ]\n}", "8 ]\n  preserve_ordering: true\n}"));
    expect(withField(text, ["version_policy", "latest", "x"], "1")).toContain("latest { num_versions: 2 x: 1 }");
    expect(withField(text, ["response_cache", "enable"], "true")).toBe(`${text}response_cache { enable: true }\n`);
    expect(withField("", ["max_batch_size"], "1")).toBe("max_batch_size: 1\n");
    expect(withField("a: 1", ["response_cache"], "{ }")).toBe("a: 1\nresponse_cache { }\n");
  });

  it("of a message in a list change and go", () => {
    const b = messages(parse(text), "model_warmup")[1];
    expect(withField(text, ["batch_size"], "4", b)).toBe(text.replace("{ name: 'b' }", "{ name: 'b' batch_size: 4 }"));
    const names = (t: string) => messages(parse(t), "model_warmup").map((m) => find(m.fields ?? [], ["name"])?.value);
    expect(names(withoutMessage(text, "model_warmup", 0))).toEqual(["'b'", '"c"']);
    expect(names(withoutMessage(text, "model_warmup", 1))).toEqual(['"a {"', '"c"']);
    expect(withoutMessage(text, "model_warmup", 2)).toBe(text.replace('model_warmup { name: "c" }\n', ""));
    expect(withoutMessage(text, "model_warmup", 1)).toContain("# second");
  });

  it("are known to end", () => {
    expect([text, text.slice(0, 100), "a [ }", "a: \"{\" # {"].map(closed)).toEqual([true, false, false, true]);
  });

  it("of broken texts are no hang", () => {
    for (let n = 0; n <= text.length; n += 3) expect(() => parse(text.slice(0, n))).not.toThrow();
    expect(parse("} a: 1")).toEqual([]);
  });
});
