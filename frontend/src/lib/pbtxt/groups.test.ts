import { describe, expect, it } from "vitest";
import type { InstanceGroup } from "../api.gen";
import { fieldRanges, formatGroup, withGroups } from "./groups";

const group = (g: Partial<InstanceGroup>): InstanceGroup => ({ name: "", kind: "KIND_AUTO", count: 0, gpus: [], hostPolicy: "", passive: false, other: false, ...g });
const two = group({ count: 2, kind: "KIND_CPU" });

describe("fieldRanges", () => {
  it.each([
    ['a: 1\ninstance_group [ { count: 1 } ]\nb: 2', ["instance_group [ { count: 1 } ]"]],
    ['instance_group { count: 1 }\ninstance_group: { count: 2 }', ["instance_group { count: 1 }", "instance_group: { count: 2 }"]],
    ['# instance_group { }\nname: "instance_group { }"\ninput { instance_group { } }', []],
    ["instance_group <\n  # } not the end ]\n  count: 1\n>\n", ["instance_group <\n  # } not the end ]\n  count: 1\n>"]],
    ["instance_group: 5", []],
    ["instance_group [ { count: 1", []],
  ])("of %j", (text, want) => {
    expect(fieldRanges(text, "instance_group").map((r) => text.slice(r.from, r.to))).toEqual(want);
  });
});

describe("formatGroup", () => {
  it("writes what differs from the defaults", () => {
    expect(formatGroup(group({}))).toBe("{ }");
    expect(formatGroup(group({ name: 'a "b"', count: 3, kind: "KIND_GPU", gpus: [0, 2], hostPolicy: "big", passive: true }))).toBe(
      '{ name: "a \\"b\\"" count: 3 kind: KIND_GPU gpus: [ 0, 2 ] host_policy: "big" passive: true }');
  });
});

describe("withGroups", () => {
  it.each([
    ["is added at the end", 'name: "m"\n', [two], 'name: "m"\ninstance_group [ { count: 2 kind: KIND_CPU } ]\n'],
    ["is added to nothing", "", [two], "instance_group [ { count: 2 kind: KIND_CPU } ]\n"],
    ["is replaced in its place", "# top\ninstance_group [ { count: 1 } ] # why\nb: 1\n", [two], "# top\ninstance_group [ { count: 2 kind: KIND_CPU } ] # why\nb: 1\n"],
    ["is gathered from several", "instance_group { count: 1 }\nb: 1\ninstance_group { count: 2 }\n", [two, group({ kind: "KIND_GPU" })], "instance_group [\n  { count: 2 kind: KIND_CPU },\n  { kind: KIND_GPU }\n]\nb: 1\n"],
    ["goes away with its line", "a: 1\ninstance_group [ { count: 1 } ]\nb: 1\n", [], "a: 1\nb: 1\n"],
    ["leaves what shares its line", "a: 1 instance_group { count: 1 } b: 1", [], "a: 1  b: 1"],
    ["was not there", "a: 1\n", [], "a: 1\n"],
  ] as [string, string, InstanceGroup[], string][])("%s", (_, text, groups, want) => expect(withGroups(text, groups)).toBe(want));
});
