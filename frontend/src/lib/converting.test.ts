import { expect, it } from "vitest";
import { sourceOf } from "./converting.svelte";

it.each([
  ["one file", ["net.pt"], "net.pt"],
  ["none", [], ""],
  ["Caffe2's weights before the network", ["init_net.pb", "predict_net.pb"], "predict_net.pb"],
  ["Caffe2 under other names", ["init_two.netdef", "two.netdef"], "two.netdef"],
  ["Caffe2's weights alone", ["init_net.pb"], "init_net.pb"],
  ["a folder of Caffe2", ["net/init_net.pb", "net/predict_net.pb"], "net/predict_net.pb"],
  ["PaddlePaddle's weights first", ["inference.pdiparams", "inference.json"], "inference.json"],
  ["the class before the weights", ["nets.py", "weights.pth"], "weights.pth"],
  ["a SavedModel", ["saved/fingerprint.pb", "saved/saved_model.pb", "saved/variables/variables.index"], "saved"],
  ["a SavedModel inside a version", ["m/1/model.savedmodel/saved_model.pb"], "m/1/model.savedmodel"],
])("converts the model itself: %s", (_, paths, want) => {
  expect(sourceOf(paths.map((path) => ({ path, file: new File([], path) })))).toBe(want);
});
