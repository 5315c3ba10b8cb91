import { expect, it } from "vitest";

// The browser may run on another machine: what a component compares with times of the server is the server's time.
it("no component reads the browser's clock", () => {
  const sources = import.meta.glob<string>("../**/*.svelte", { query: "?raw", import: "default", eager: true });
  expect(Object.keys(sources).length).toBeGreaterThan(50);
  expect(Object.entries(sources).filter(([, s]) => s.includes("Date.now")).map(([path]) => path)).toEqual([]);
});
