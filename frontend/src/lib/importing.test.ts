import { expect, it, vi } from "vitest";
import { client } from "./api";
import { importing } from "./importing.svelte";

it("counts the imports that were dropped together", async () => {
  const created = vi.spyOn(client, "createImport").mockRejectedValue(new Error("no"));
  importing.begin([{ path: "/a" }, { path: "/b" }]);
  expect(importing.place).toEqual({ at: 1, of: 2 });
  importing.begin([{ path: "/c" }]);
  expect(importing.place).toEqual({ at: 1, of: 3 });
  await importing.close();
  expect([importing.place, importing.source]).toEqual([{ at: 2, of: 3 }, "b"]);
  await importing.close();
  await importing.close();
  expect(importing.phase).toBe("idle");
  created.mockRestore();
});
