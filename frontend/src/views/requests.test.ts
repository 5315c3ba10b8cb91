import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Request, Requests, RequestsEvent } from "../lib/api.gen";
import { live } from "../lib/live.svelte";
import View from "./Requests.svelte";

const request = (id: number): Request => ({
  id, parent: 0, tMs: id, protocol: "http", client: "127.0.0.1", model: "mlp", version: "1", requestId: "", outcome: "ok", slow: false,
  cached: false, kept: false, status: 200, cause: "", text: "", target: "", bytesIn: 0, bytesOut: 0, responses: 1, rows: 1, instance: "mlp_0_0",
  batchRows: 1, batchRequests: 1, durationUs: 10_000, phasesUs: [0, 0, 0, 0, 10_000, 0, 0, 0], busyUs: 0, busyRows: 0, busyRequests: 0,
});

let kept: number; // the server has the requests 1 to kept
let wait: Promise<unknown>; // answers come after it
let interrupt: () => void;
let end: (e: RequestsEvent) => void; // requests end while the list is live

beforeEach(() => {
  [kept, wait] = [1500, Promise.resolve()];
  vi.stubGlobal("IntersectionObserver", class { observe(): void {} disconnect(): void {} });
  vi.stubGlobal("fetch", vi.fn(async (url: string) => {
    const q = new URL(url, "http://server").searchParams;
    const last = Math.min(kept, Number(q.get("before") ?? kept + 1) - 1);
    const n = Math.min(last, Number(q.get("limit") ?? 200));
    const requests = Array.from({ length: n }, (_, i) => request(last - i));
    await wait;
    return new Response(JSON.stringify({ requests, next: kept, more: last > n, missed: 0, leftOut: 0, off: false, keeps: false, oldestMs: 0, dropped: 0 } satisfies Requests));
  }));
  vi.spyOn(live, "watch").mockImplementation((_, received) => {
    [interrupt, end] = [() => received(null), received];
    return () => undefined;
  });
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const older = () => screen.queryByRole<HTMLButtonElement>("button", { name: "Older requests" });
const listed = (n: number) => waitFor(() => expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe(String(n + 1)), { timeout: 20_000 });
const press = async () => {
  await waitFor(() => expect(older()?.disabled).toBe(false), { timeout: 20_000 });
  await fireEvent.click(older()!);
};

it("keeps the loaded requests when the stream breaks, and reads what ended meanwhile", async () => {
  render(View, { query: "" });
  await listed(200);
  await press();
  await listed(1200);
  kept = 3100; // more than one page
  interrupt();
  await listed(2800);
  await press();
  await listed(3100);
  expect(older()).toBeNull();
});

it("does not grow without end while it is live", async () => {
  render(View, { query: "" });
  await listed(200);
  for (let i = 0; i < 60; i++) { // all are more than the list keeps, but it leaves out only whole parts of 50
    const requests = Array.from({ length: 99 }, () => request(++kept)).reverse();
    end({ of: 0, requests, next: kept, missed: 0, leftOut: 0, dropped: 0 });
  }
  await waitFor(() => expect(screen.getByRole("table").getAttribute("aria-rowcount")).not.toBe("201"));
  const rows = Number(screen.getByRole("table").getAttribute("aria-rowcount")) - 1;
  expect(rows).toBeGreaterThanOrEqual(5000);
  expect(rows).toBeLessThan(5050);
});

it("offers no older requests while the list is still that of another filter", async () => {
  const view = render(View, { query: "" });
  await listed(200);
  let answer: (v: unknown) => void = () => undefined;
  wait = new Promise((ok) => (answer = ok));
  await view.rerender({ query: "text=mark" });
  expect(older()?.disabled).toBe(true);
  answer(null);
  await press();
  await listed(1200);
  await press();
  await listed(1500);
});
