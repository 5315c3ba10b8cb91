import { afterEach, describe, expect, it, vi } from "vitest";
import type { Framework } from "./api.gen";
import { frameworks } from "./frameworks.svelte";
import { toasts } from "./toast.svelte";

const torch: Framework = { name: "pytorch", title: "PyTorch", package: "torch==2", size: "5 GB", state: "missing", sinceMs: 0, log: [], reason: "", waiting: [] };
const answer = (...list: Framework[]) => vi.stubGlobal("fetch", vi.fn(() => Promise.resolve(Response.json({ frameworks: list }))));

afterEach(() => {
  vi.unstubAllGlobals();
  frameworks.all = null;
  frameworks.ask(null);
  toasts.items = [];
});

describe("frameworks", () => {
  it("asks with what waits for it now", async () => {
    answer({ ...torch, waiting: ["resnet"] });
    frameworks.all = [torch];
    frameworks.ask(torch);
    expect(frameworks.asking?.waiting).toEqual([]);
    await frameworks.refresh();
    expect(frameworks.asking?.waiting).toEqual(["resnet"]);
    frameworks.ask(null);
    expect(frameworks.asking).toBeNull();
  });
  it("reports how an installation ended, once", () => {
    frameworks.all = [{ ...torch, state: "installing" }];
    frameworks.put({ ...torch, state: "failed", reason: "no room" });
    frameworks.put({ ...torch, state: "failed", reason: "no room" });
    expect(toasts.items.map((x) => [x.kind, x.text])).toEqual([["error", "no room"]]);
  });
});
