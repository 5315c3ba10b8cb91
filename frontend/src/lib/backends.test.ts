import { describe, expect, it } from "vitest";
import { backendRows } from "./backends";

const server = (onnxRuntime: { version: string; library: string; error: string }) => ({
  backends: [{ name: "identity", note: "" }, { name: "onnxruntime", note: "" }, { name: "other", note: "of a plug-in" }], onnxRuntime,
});

describe("backendRows", () => {
  it("has one row a backend, each with a note", () => {
    const rows = backendRows(server({ version: "1.31.1", library: "/lib/x.so", error: "" }));
    expect(rows.map((r) => [r.name, r.note, r.library])).toEqual([
      ["onnxruntime", "ONNX Runtime 1.31.1", "/lib/x.so"], ["other", "of a plug-in", ""], ["identity", "built in: returns its inputs", ""],
    ]);
    expect(rows.some((r) => r.bad)).toBe(false);
  });
  it("says why the library is not there, or that it is not opened yet", () => {
    expect(backendRows(server({ version: "", library: "", error: "no library" }))[0]).toMatchObject({ name: "onnxruntime", note: "no library", bad: true });
    expect(backendRows(server({ version: "", library: "", error: "" }))[0]).toMatchObject({ note: "ONNX Runtime not loaded yet", bad: false });
  });
});
