import { afterEach, describe, expect, it, vi } from "vitest";
import { onWindowFiles, saveAs, saveLinks, withoutCompanions } from "./window";

const tell = (detail: unknown) => window.dispatchEvent(new CustomEvent("nereid-files", { detail }));

describe("files from the desktop window", () => {
  let stop = () => {};
  const failed = vi.fn();
  afterEach(() => {
    stop();
    delete window.runtime;
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    document.body.innerHTML = "";
  });

  it("opens what was dropped or picked, until stopped", () => {
    const open = vi.fn();
    stop = onWindowFiles({ open, failed });
    vi.spyOn(document, "elementFromPoint").mockReturnValue(document.body);
    tell({ x: 5, y: 5, paths: ["/m/a b.onnx", "/m/folder"] });
    tell({ x: -1, y: -1, paths: ["/m/c.zip"] });
    tell("nonsense");
    stop();
    tell({ x: 5, y: 5, paths: ["/m/late.onnx"] });
    expect(open.mock.calls).toEqual([[["/m/a b.onnx", "/m/folder"]], [["/m/c.zip"]]]);
  });

  it("tells the window when it hears", () => {
    const open = vi.fn();
    vi.stubGlobal("location", { protocol: "wails:", hostname: "wails" });
    window.runtime = { EventsEmit: (name) => name === "nereid-ready" && tell({ x: -1, y: -1, paths: ["/m/given.onnx"] }) };
    stop = onWindowFiles({ open, failed });
    expect(open.mock.calls).toEqual([[["/m/given.onnx"]]]);
  });

  it("gives a drop on an element that takes files itself to that element", async () => {
    const open = vi.fn();
    const fetched = vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response("pixels"));
    stop = onWindowFiles({ open, failed });
    document.body.innerHTML = "<div data-drop><p>image</p></div>";
    vi.spyOn(document, "elementFromPoint").mockReturnValue(document.querySelector("p"));
    const file = new Promise<File>((ok) => document.querySelector("div")?.addEventListener("nereid-file", (e) => ok((e as CustomEvent<File>).detail)));
    tell({ x: 5, y: 5, paths: ["/m/seven.png"], from: "/dropped/ABC" });
    const got = await file;
    expect(fetched.mock.calls).toEqual([["/dropped/ABC/0"]]);
    expect([got.name, await got.text()]).toEqual(["seven.png", "pixels"]);
    expect(open).not.toHaveBeenCalled();
    expect(failed).not.toHaveBeenCalled();
  });

  it("says why a dropped file cannot be read", async () => {
    vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response("seven.png is no file\n", { status: 400 }));
    document.body.innerHTML = "<div data-drop></div>";
    vi.spyOn(document, "elementFromPoint").mockReturnValue(document.querySelector("div"));
    const error = new Promise((failed) => (stop = onWindowFiles({ open: vi.fn(), failed })));
    tell({ x: 5, y: 5, paths: ["/m/seven.png"], from: "/dropped/ABC" });
    expect(String(await error)).toBe("Error: seven.png is no file");
  });

  it("does not make a second import of a model's data file", () => {
    expect(withoutCompanions(["/m/a.onnx", "/m/a.onnx.data", "/m/a.onnx_data", "/m/a.bin", "/n/a.bin", "/m/b.bin"])).toEqual([
      "/m/a.onnx",
      "/n/a.bin",
      "/m/b.bin",
    ]);
  });
});

describe("saving from the desktop window", () => {
  const emit = vi.fn();
  let stop = () => {};
  afterEach(() => {
    stop();
    emit.mockReset();
    delete window.runtime;
    vi.unstubAllGlobals();
    document.body.innerHTML = "";
  });
  const inside = () => {
    vi.stubGlobal("location", { protocol: "wails:", hostname: "wails" });
    window.runtime = { EventsEmit: emit };
  };
  const clickLink = () => {
    document.body.innerHTML = '<a href="http://127.0.0.1:8003/api/models/m/archive?x=1" download="m.zip"><b>save</b></a>';
    const e = new MouseEvent("click", { bubbles: true, cancelable: true });
    document.querySelector("b")?.dispatchEvent(e);
    return e;
  };

  it("asks the window to save a link, and says what became of it", () => {
    inside();
    const h = { done: vi.fn(), failed: vi.fn() };
    stop = saveLinks(h);
    expect(clickLink().defaultPrevented).toBe(true);
    expect(emit.mock.calls).toEqual([["nereid-save", { name: "m.zip", path: "/api/models/m/archive?x=1" }]]);
    window.dispatchEvent(new CustomEvent("nereid-saved", { detail: { path: "/home/u/m.zip", error: "" } }));
    window.dispatchEvent(new CustomEvent("nereid-saved", { detail: { path: "", error: "disk full" } }));
    expect([h.done.mock.calls, h.failed.mock.calls]).toEqual([[["/home/u/m.zip"]], [["disk full"]]]);
  });

  it("leaves links to a browser alone", () => {
    stop = saveLinks({ done: vi.fn(), failed: vi.fn() });
    expect(clickLink().defaultPrevented).toBe(false);
    expect(emit).not.toHaveBeenCalled();
  });

  it("hands bytes to the window", async () => {
    inside();
    await saveAs("request.bin", new Blob([new Uint8Array([0, 255, 1])]));
    expect(emit.mock.calls).toEqual([["nereid-save", { name: "request.bin", data: "AP8B" }]]);
  });
});
