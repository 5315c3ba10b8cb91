import { afterEach, describe, expect, it, vi } from "vitest";
import { onWindowFiles, withoutCompanions } from "./window";

const tell = (detail: unknown) => window.dispatchEvent(new CustomEvent("nereid-files", { detail }));

describe("files from the desktop window", () => {
  let stop = () => {};
  afterEach(() => {
    stop();
    vi.restoreAllMocks();
    document.body.innerHTML = "";
  });

  it("opens what was dropped or picked, until stopped", () => {
    const open = vi.fn();
    stop = onWindowFiles(open);
    vi.spyOn(document, "elementFromPoint").mockReturnValue(document.body);
    tell({ x: 5, y: 5, paths: ["/m/a b.onnx", "/m/folder"] });
    tell({ x: -1, y: -1, paths: ["/m/c.zip"] });
    tell("nonsense");
    stop();
    tell({ x: 5, y: 5, paths: ["/m/late.onnx"] });
    expect(open.mock.calls).toEqual([[["/m/a b.onnx", "/m/folder"]], [["/m/c.zip"]]]);
  });

  it("leaves a drop on an element that takes files itself to that element", () => {
    const open = vi.fn();
    stop = onWindowFiles(open);
    document.body.innerHTML = "<div data-drop><p>image</p></div>";
    vi.spyOn(document, "elementFromPoint").mockReturnValue(document.querySelector("p"));
    tell({ x: 5, y: 5, paths: ["/m/seven.png"] });
    expect(open).not.toHaveBeenCalled();
  });

  it("does not make a second import of a model's data file", () => {
    expect(withoutCompanions(["/m/a.onnx", "/m/a.onnx.data", "/m/a.onnx_data", "/m/a.bin", "/n/a.bin", "/m/b.bin"])).toEqual([
      "/m/a.onnx",
      "/n/a.bin",
      "/m/b.bin",
    ]);
  });
});
