import { cleanup, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { AlertRules, ModelLoad, ModelLoads } from "../lib/api.gen";
import Alerts from "./model/Alerts.svelte";

const load: ModelLoad = {
  version: "1", tMs: 1_700_000_000_000, endMs: 0, config: "c0ffee", files: "", revision: 0, requests: 1, failures: 0, meanUs: 100, p50Us: 90, p99Us: 200, cpu: null, memoryBytes: 0,
};
let answer: ModelLoads;

beforeEach(() => {
  vi.useFakeTimers();
  const rules: AlertRules = { rules: [], silencedUntilMs: 0 };
  vi.stubGlobal("fetch", (url: RequestInfo | URL) => Promise.resolve(Response.json(JSON.stringify(url).includes("/loads") ? answer : rules)));
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The text of the load's cell below a heading. */
const cell = (heading: string) => screen.getAllByRole("cell").find((c) => c.getAttribute("data-label") === heading)?.textContent;

it("shows the load of the machine when a minute has ended, while the page is open", async () => {
  answer = { loads: [load] };
  render(Alerts, { name: "m", stamp: "1" });
  await vi.advanceTimersByTimeAsync(0);
  await tick();
  expect([cell("CPU"), cell("Requests")]).toEqual(["–", "1"]);
  answer = { loads: [{ ...load, cpu: 0.25, requests: 70 }] };
  await vi.advanceTimersByTimeAsync(10_000);
  await tick();
  expect([cell("CPU"), cell("Requests")]).toEqual(["25 %", "70"]);
});
