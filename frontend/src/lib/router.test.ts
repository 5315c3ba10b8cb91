import { describe, expect, it } from "vitest";
import { href, parse, router } from "./router.svelte";

describe("routes", () => {
  it.each([
    ["", { view: "models" }], ["#/models", { view: "models" }], ["#/models/a%2Fb/try", { view: "model", name: "a/b", tab: "try" }],
    ["#/models/x/nonsense", { view: "model", name: "x", tab: "overview" }], ["#/history", { view: "history" }], ["#/history?range=1h&log=1", { view: "history" }], ["#/models/x/charts?from=1&to=2", { view: "model", name: "x", tab: "charts" }], ["#/what", { view: "models" }], ["#/models/%E0%A4%A", { view: "models" }],
  ])("%s", (hash, want) => expect(parse(hash)).toEqual(want));
  it("are read as they are written", () => expect(parse(href.model("a b/ü", "charts"))).toEqual({ view: "model", name: "a b/ü", tab: "charts" }));
});

describe("router.leaveFor", () => {
  it("waits until the page is left", async () => {
    router.go("#/models/m");
    expect(await router.leaveFor(href.models)).toBe(true);
    expect(router.route).toEqual({ view: "models" });
    expect(await router.leaveFor(href.models)).toBe(true); // there already
  });
  it("reports that unsaved changes keep the page", async () => {
    await router.leaveFor("#/models/m");
    router.leave = () => false;
    expect(await router.leaveFor(href.models)).toBe(false);
    expect(location.hash).toBe("#/models/m");
    router.leave = null;
  });
});
