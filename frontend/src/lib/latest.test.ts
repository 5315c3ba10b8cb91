import { expect, test } from "vitest";
import { latest } from "./latest";

/** A promise, and what settles it. */
function waiting(): { promise: Promise<string>; resolve: (s: string) => void; reject: (e: Error) => void } {
  let settle: [(s: string) => void, (e: Error) => void] | undefined;
  const promise = new Promise<string>((resolve, reject) => (settle = [resolve, reject]));
  return { promise, resolve: (s) => settle?.[0](s), reject: (e) => settle?.[1](e) };
}

test("an answer that comes late does not replace a newer one", async () => {
  const shown: string[] = [];
  const show = latest<string>((s) => shown.push(s));
  const slow = waiting();
  const first = show(() => slow.promise);
  await show(() => Promise.resolve("new"));
  slow.resolve("old");
  await first;
  expect(shown).toEqual(["new"]);
});

test("an error that comes late is dropped, and one of the newest question is thrown", async () => {
  const show = latest<string>(() => undefined);
  const slow = waiting();
  const first = show(() => slow.promise);
  await show(() => Promise.resolve("new"));
  slow.reject(new Error("late"));
  await expect(first).resolves.toBeUndefined();
  await expect(show(() => Promise.reject(new Error("now")))).rejects.toThrow("now");
});
