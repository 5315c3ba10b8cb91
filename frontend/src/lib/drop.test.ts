import { describe, expect, it } from "vitest";
import { parcels } from "./drop";

const upload = (path: string) => ({ path, file: new File([], path) });

describe("parcels", () => {
  const names = (paths: string[]) => parcels(paths.map(upload)).map((p) => [p.source, p.files.map((f) => f.path)]);
  it.each([
    ["one file", ["m.onnx"], [["m.onnx", ["m.onnx"]]]],
    ["external data go with the model", ["m.onnx", "m.onnx.data"], [["m.onnx", ["m.onnx", "m.onnx.data"]]]],
    ["two models are two", ["a.onnx", "b.ONNX"], [["a.onnx", ["a.onnx"]], ["b.ONNX", ["b.ONNX"]]]],
    ["folders are one each", ["d/1/m.onnx", "d/config.pbtxt", "e/1/x"], [["d", ["d/1/m.onnx", "d/config.pbtxt"]], ["e", ["e/1/x"]]]],
    ["a folder of models is one each", ["r/a/1/m.onnx", "r/a/config.pbtxt", "r/b/config.pbtxt"], [["a", ["a/1/m.onnx", "a/config.pbtxt"]], ["b", ["b/config.pbtxt"]]]],
    ["a model with several versions is one", ["m/1/m.onnx", "m/2/m.onnx"], [["m", ["m/1/m.onnx", "m/2/m.onnx"]]]],
    ["a folder with something else is one", ["r/a/1/m.onnx", "r/b/1/m.onnx", "r/notes/x.txt"], [["r", ["r/a/1/m.onnx", "r/b/1/m.onnx", "r/notes/x.txt"]]]],
    ["a zip alone", ["z.zip"], [["z.zip", ["z.zip"]]]],
    ["something else", ["model.pt"], [["model.pt", ["model.pt"]]]],
    ["nothing", [], []],
  ])("%s", (_, paths, want) => expect(names(paths)).toEqual(want));
});
