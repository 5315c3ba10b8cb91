import { describe, expect, it } from "vitest";
import type { Model, Tensor } from "./api.gen";
import { connected, disconnected, misfit, open, read, refusal, starting, withoutPort, withoutStep, withStep, wires } from "./ensemble";

const tensor = (name: string, dataType: string, shape: number[], optional = false) => ({ name, dataType, shape, dims: shape.slice(1), dimNames: [], format: "", optional, labels: false }) satisfies Tensor;
const model = (name: string, inputs: Tensor[], outputs: Tensor[], maxBatchSize = 8) => ({ name, inputs, outputs, maxBatchSize }) as Model;
const models = [
  model("resize", [tensor("picture", "UINT8", [-1, -1, -1])], [tensor("small", "FP32", [-1, 784])]),
  model("classify", [tensor("x", "FP32", [-1, 784]), tensor("bias", "FP32", [-1, 10], true)], [tensor("scores", "FP32", [-1, 10]), tensor("label", "BYTES", [-1, 1])]),
  model("scale", [tensor("in", "FP32", [-1, 784])], [tensor("out", "FP32", [-1, 784])]),
];
const [, classify, scale] = models as [Model, Model, Model];
const text = `# digits
platform: "ensemble"
max_batch_size: 8
input [ { name: "P" data_type: TYPE_UINT8 dims: [ -1, -1 ] } ]
output [ { name: "S" data_type: TYPE_FP32 dims: [ 10 ] } ]
ensemble_scheduling {
  step [
    { # first
      model_name: "resize" model_version: -1
      input_map { key: "picture" value: "P" }
      output_map { key: "small" value: "mid" }
    },
    {
      model_name: "classify" model_version: 2
      input_map [ { key: "x" value: "mid" } ]
      output_map { key: "scores" value: "S" }
    }
  ]
}
`;
const end = (step: number, port: string) => ({ step, port });
const said = (t: string) => wires(read(t)).map((w) => `${w.from.step}.${w.from.port} ${w.to.step}.${w.to.port}`);

describe("an ensemble", () => {
  it("is read with its steps, ports and wires", () => {
    const e = read(text);
    expect(e.steps.map((s) => [s.model, s.version])).toEqual([["resize", "-1"], ["classify", "2"]]);
    expect(e.inputs).toEqual([{ name: "P", dataType: "UINT8", shape: [-1, -1, -1], optional: false }]);
    expect(said(text)).toEqual(["-1.P 0.picture", "0.small 1.x", "1.scores -1.S"]);
    expect(open(e, models, 1)).toEqual([]); // bias is optional
  });

  it("refuses wires that the server would refuse", () => {
    const three = withStep(text, scale);
    const why = (from: [number, string], to: [number, string]) => refusal(read(three), models, { from: end(...from), to: end(...to) });
    expect(why([0, "small"], [2, "in"])).toBeNull();
    expect(why([1, "label"], [2, "in"])).toBe("type");
    expect(why([1, "scores"], [2, "in"])).toBe("shape");
    expect(why([1, "scores"], [0, "picture"])).toBe("circle");
    expect(why([0, "small"], [0, "picture"])).toBe("circle");
    expect(why([-1, "P"], [-1, "S"])).toBe("straight");
    expect(why([1, "scores"], [-1, ""])).toBe("twice");
    expect(why([1, "label"], [-1, ""])).toBeNull();
    expect(misfit(read(text), models, { from: end(0, "small"), to: end(1, "x") })).toBeNull();
  });

  it("gets a step between two others, and what is written stays", () => {
    let t = withStep(text, scale);
    expect(open(read(t), models, 2)).toEqual(["in"]);
    t = connected(t, models, { from: end(0, "small"), to: end(2, "in") });
    t = connected(t, models, { from: end(2, "out"), to: end(1, "x") });
    expect(said(t)).toEqual(["-1.P 0.picture", "2.out 1.x", "0.small 2.in", "1.scores -1.S"]);
    expect(t).toContain("    { # first\n");
    expect(t).toContain('    },\n    {\n      model_name: "scale"\n      model_version: -1\n      input_map { key: "in" value: "mid" }\n      output_map { key: "out" value: "out" }\n    }\n  ]\n}\n');
    expect(t).toContain('input_map [ { key: "x" value: "out" } ]');
  });

  it("gets an output and an input from the ports they belong to", () => {
    let t = connected(text, models, { from: end(1, "label"), to: end(-1, "") });
    expect(t).toContain('output [ { name: "S" data_type: TYPE_FP32 dims: [ 10 ] }, { name: "label" data_type: TYPE_STRING dims: [ 1 ] } ]');
    t = connected(t, models, { from: end(-1, ""), to: end(1, "bias") });
    expect(t).toContain('{ name: "bias" data_type: TYPE_FP32 dims: [ 10 ] } ]');
    expect(said(t)).toEqual(["-1.P 0.picture", "0.small 1.x", "-1.bias 1.bias", "1.scores -1.S", "1.label -1.label"]);
    t = withoutPort(t, "input", "bias");
    expect(t).not.toContain("bias");
    expect(withoutPort(t, "output", "label")).toContain('output [ { name: "S" data_type: TYPE_FP32 dims: [ 10 ] } ]');
  });

  it("gives an output to another step, and steps that took the tensor keep it", () => {
    let t = withStep(withStep(text, classify), scale);
    t = connected(t, models, { from: end(0, "small"), to: end(2, "x") });
    t = connected(t, models, { from: end(2, "scores"), to: end(-1, "S") });
    expect(said(t)).toEqual(["-1.P 0.picture", "0.small 1.x", "0.small 2.x", "2.scores -1.S"]);
    expect(read(t).steps[1]?.outputs).toEqual({ scores: "S_2" });
    expect(said(disconnected(t, end(-1, "S")))).not.toContain("2.scores -1.S");
  });

  it("loses a step with its wires only", () => {
    const t = withoutStep(text, 0);
    expect(read(t).steps.map((s) => [s.model, s.inputs])).toEqual([["classify", {}]]);
    expect(open(read(t), models, 0)).toEqual(["x"]);
    const none = withoutStep(t, 0);
    expect(read(none).steps).toEqual([]);
    expect(read(withStep(none, scale)).steps.map((s) => s.model)).toEqual(["scale"]);
  });

  it("starts as a copy of a model's ports", () => {
    const t = starting("mine", classify);
    expect(t).toContain('name: "mine"\nplatform: "ensemble"\nmax_batch_size: 8\n');
    expect(said(t)).toEqual(["-1.x 0.x", "0.scores -1.scores", "0.label -1.label"]);
    expect(open(read(t), models, 0)).toEqual([]);
    expect(read(withStep("", scale)).steps).toHaveLength(1);
    expect(withStep(text, model("small", [], [], 4))).toContain("max_batch_size: 4\n");
  });
});
