import { describe, expect, it } from "vitest";
import { search } from "./palette.svelte";

describe("palette", () => {
  const all = ["Load digits", "digits", "Server"].map((label) => ({ label, hint: "", run: () => undefined }));
  it("finds parts first, then letters in order", () => {
    expect(search(all, "dig").map((c) => c.label)).toEqual(["digits", "Load digits"]);
    expect(search(all, "svr").map((c) => c.label)).toEqual(["Server"]);
    expect(search(all, "zzz")).toEqual([]);
    expect(search(all, " ")).toHaveLength(3);
  });
  it("finds words in any order", () => {
    expect(search(all, "digits load").map((c) => c.label)).toEqual(["Load digits"]);
    expect(search(all, "digits  lo").map((c) => c.label)).toEqual(["Load digits"]);
    expect(search(all, "digits unload")).toEqual([]);
  });
});
