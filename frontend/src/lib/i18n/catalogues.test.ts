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
  it("have one word for 1 and another one for other numbers", () => {
    const said = (n: string | number) => fill("{n} {n:model is|models are} ready", { n });
    expect([said(0), said(1), said("1"), said(2), said("1,000")]).toEqual(["0 models are ready", "1 model is ready", "1 model is ready", "2 models are ready", "1,000 models are ready"]);
    expect(fill(en["tune.ended"], { n: 1, time: "3 s" })).toBe("1 measurement in 3 s.");
  });
});
