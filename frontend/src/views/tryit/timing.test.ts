import { mount, unmount } from "svelte";
import { afterEach, expect, it } from "vitest";
import type { Outcome } from "../../lib/tryit/form.svelte";
import { parseTiming } from "../../lib/tryit/request";
import Timing from "./Timing.svelte";

let shown: ReturnType<typeof mount> | undefined;
afterEach(async () => {
  if (shown) await unmount(shown);
  document.body.replaceChildren();
});

function show(header: string | null): HTMLElement {
  const outcome: Outcome = { sentMs: 1, status: 200, clientMs: 4, timing: parseTiming(header), reply: null, error: "", replyBytes: 0, items: null };
  shown = mount(Timing, { target: document.body, props: { outcome } });
  return document.body;
}
const texts = (e: HTMLElement, what: string) => [...e.querySelectorAll(what)].map((n) => n.textContent?.replace(/\s+/g, " ").trim());

it("draws an ensemble's steps at their start, with model, version and time", () => {
  const at = show('queue;dur=0, input;dur=0, infer;dur=3, output;dur=0, total;dur=4, step-1-pre;desc="pre:1";start=0.5;dur=1, step-2-net;desc="net:7";start=1.5;dur=2');
  expect(texts(at, "ol li .model")).toEqual(["pre:1", "net:7"]);
  expect(texts(at, "ol li b")).toEqual(["1.00 ms", "2.00 ms"]);
  expect([...at.querySelectorAll<HTMLElement>("ol .track span")].map((e) => [e.style.marginLeft, e.style.width])).toEqual([["12.5%", "25%"], ["37.5%", "50%"]]); // of the time inside the server
  expect(texts(at, "ol .at")).toEqual(["from 500 µs", "from 1.50 ms"]);
  expect(texts(at, "ul li b")).toHaveLength(5);
});

it("has no list of steps for a plain model, and nothing when the server does not tell", async () => {
  expect(show("queue;dur=1, infer;dur=1").querySelector("ol")).toBeNull();
  await unmount(shown!);
  shown = undefined;
  document.body.replaceChildren();
  expect(show(null).textContent?.trim()).toBe("");
});
