import { cleanup, fireEvent, render, screen } from "@testing-library/svelte";
import { tick } from "svelte";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Framework, Import } from "../../lib/api.gen";
import { frameworks } from "../../lib/frameworks.svelte";
import { importing } from "../../lib/importing.svelte";
import ImportReview from "./ImportReview.svelte";

const torch: Framework = { name: "pytorch", title: "PyTorch", package: "torch==2", size: "5 GB", state: "missing", sinceMs: 0, log: [], reason: "", waiting: [] };
const staged: Import = {
  id: "i1", state: "staged", origin: "upload", kind: "folder", name: "net", repository: "/models", source: "net", files: [], versions: ["1"], backend: "pytorch", maxBatchSize: 0,
  inputs: [], outputs: [], config: 'backend: "pytorch"', configGenerated: false, faults: [], code: [{ path: "1/model.pt", why: "a PyTorch model" }], exists: false, step: "", progress: -1, reason: "", loadMs: 0, more: [],
};
const numpy: Framework = { ...torch, name: "python", title: "NumPy", package: "numpy", size: "100 MB" };
const failed: Import = { ...staged, state: "failed", reason: "PyTorch is not installed, which model 'net' needs" };

/** The requests of the page, "METHOD path", with the consent of a commit. */
const requests: string[] = [];
vi.stubGlobal("fetch", vi.fn((url: string, init: RequestInit) => {
  const what = `${init.method} ${url}`;
  if (!/imports/.test(url)) return new Promise<Response>(() => undefined);
  requests.push(url.endsWith("/commit") ? `${what} ${(JSON.parse(init.body as string) as { consentCode: boolean }).consentCode}` : what);
  return Promise.resolve(Response.json(url.endsWith("/commit") ? { ...staged, state: "committing" } : staged));
}));
HTMLDialogElement.prototype.showModal = function () { this.open = true; };
HTMLDialogElement.prototype.close = function () { this.open = false; };
afterEach(() => {
  cleanup();
  requests.length = 0;
  frameworks.all = null;
});

describe("a Python model that failed", () => {
  const button = () => screen.queryByRole("button", { name: "Install NumPy…", hidden: true });
  it("is offered numpy if that was missing, and not for another fault", () => {
    frameworks.all = [numpy];
    for (const [reason, offered] of [["NumPy is not installed, which model 'net' needs: run 'nereid install python'", true], ["No module named 'cv2'", false]] as const) {
      render(ImportReview, { imp: { ...failed, backend: "python", reason }, title: "Import", onclose: vi.fn() });
      expect(button() !== null, reason).toBe(offered);
      cleanup();
    }
  });
});

describe("a model whose framework is missing", () => {
  it("keeps the trust, offers the installation, and loads after it", async () => {
    frameworks.all = [torch];
    importing.imp = staged;
    importing.trusted = "";
    const { rerender } = render(ImportReview, { imp: staged, title: "Import", onclose: vi.fn() });
    await fireEvent.click(screen.getByRole("checkbox", { hidden: true }));
    await rerender({ imp: { ...staged } }); // a newer state with the same code
    await fireEvent.click(screen.getByRole("button", { name: "Load model", hidden: true }));
    await vi.waitFor(() => expect(requests).toContain("POST /api/imports/i1/commit true"));
    cleanup();
    requests.length = 0;
    importing.imp = failed;
    render(ImportReview, { imp: failed, title: "Import", onclose: vi.fn() });
    await tick();
    expect(screen.getByRole<HTMLInputElement>("checkbox", { hidden: true }).checked).toBe(true);
    await fireEvent.click(screen.getByRole("button", { name: "Install PyTorch…", hidden: true }));
    expect(frameworks.asking?.name).toBe("pytorch");
    frameworks.put({ ...torch, state: "installing" });
    await tick();
    expect(requests).toEqual([]);
    frameworks.put({ ...torch, state: "installed" });
    await vi.waitFor(() => expect(requests).toContain("POST /api/imports/i1/commit true"));
  });
});
