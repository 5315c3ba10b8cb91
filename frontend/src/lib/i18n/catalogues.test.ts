import { describe, expect, it } from "vitest";
import { en } from "./en";
import { fill } from "./index.svelte";
import { zh } from "./zh";

describe("catalogues", () => {
  it("have the same parameters in each text", () => {
    const params = (s: string) => [...s.matchAll(/\{(\w+)\}/g)].map((m) => m[1]).sort();
    for (const key of Object.keys(en) as (keyof typeof en)[]) expect(params(zh[key]), key).toEqual(params(en[key]));
  });
  it("fill in parameters and leave unknown ones as they are", () => expect(fill("{a} of {b}", { a: 1 })).toBe("1 of {b}"));
});
