import { describe, expect, it } from "vitest";
import { counts, diffLines, fold, sideBySide } from "./diff";

const marks = { same: " ", add: "+", del: "-" };
const show = (a: string, b: string) => diffLines(a, b).map((l) => marks[l.kind] + l.text);

describe("diffLines", () => {
  it.each([
    ["equal", "a\nb\n", "a\nb\n", [" a", " b"]], ["both empty", "", "", []], ["from nothing", "", "a\n", ["+a"]], ["to nothing", "a\nb", "", ["-a", "-b"]],
    ["one changed", "a\nb\nc", "a\nx\nc", [" a", "-b", "+x", " c"]], ["put in the middle", "a\nc", "a\nb\nc", [" a", "+b", " c"]],
    ["at the ends", "a\nb", "x\na\nb\ny", ["+x", " a", " b", "+y"]], ["a missing last newline is no change", "a\n", "a", [" a"]],
    ["an empty line is a line", "a\n\nb", "a\nb", [" a", "-", " b"]],
  ])("%s", (_, a, b, want) => expect(show(a, b)).toEqual(want));

  it("contains both texts, whatever they are", () => {
    let seed = 7;
    const rnd = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    for (let round = 0; round < 200; round++) {
      const make = () => Array.from({ length: rnd(12) }, () => "abc"[rnd(3)]);
      const [a, b] = [make(), make()];
      const d = diffLines(a.join("\n"), b.join("\n"));
      expect(d.filter((l) => l.kind !== "add").map((l) => l.text)).toEqual(a);
      expect(d.filter((l) => l.kind !== "del").map((l) => l.text)).toEqual(b);
    }
  });

  it("numbers lines on both sides", () => {
    expect(diffLines("a\nb", "b\nc").map((l) => [l.before, l.after])).toEqual([[1, 0], [2, 1], [0, 2]]);
  });

  it("ends in time for texts with nothing in common", () => {
    const a = Array.from({ length: 3000 }, (_, i) => `a${i}`).join("\n");
    const b = Array.from({ length: 3000 }, (_, i) => `b${i}`).join("\n");
    expect(counts(diffLines(a, b))).toEqual({ added: 3000, removed: 3000 });
  });
});

describe("fold and sideBySide", () => {
  const long = Array.from({ length: 20 }, (_, i) => `l${i}`);
  it("folds what is far from a change", () => {
    const blocks = fold(diffLines(long.join("\n"), long.map((l, i) => (i === 10 ? "x" : l)).join("\n")), 2);
    expect(blocks.map((b) => ("folded" in b ? b.folded : b.lines.length))).toEqual([8, 6, 7]);
  });
  it("does not fold a single line", () => {
    const blocks = fold(diffLines("a\nb\nc\nd", "a\nb\nc\nx"), 2);
    expect(blocks.every((b) => "lines" in b)).toBe(true);
  });
  it("pairs removed with added lines", () => {
    expect(sideBySide(diffLines("a\nb\nc", "x\nc")).map((r) => [r.left?.text ?? null, r.right?.text ?? null])).toEqual([["a", "x"], ["b", null], ["c", "c"]]);
  });
});
