import { describe, expect, it } from "vitest";
import type { Instance, ModelRuntime, Version } from "./api.gen";
import { ensembleSteps, runtimeMayChange } from "./model";

describe("ensembleSteps", () => {
  const of = (...names: unknown[]) => ({ ensemble_scheduling: { step: names.map((model_name) => ({ model_name })) } });
  it.each([
    ["steps in their order", of("resize", "classify"), ["resize", "classify"]],
    ["a model that two steps run", of("a", "b", "a"), ["a", "b"]],
    ["no configuration", null, []],
    ["no ensemble", { name: "plain" }, []],
    ["a step without a name", { ensemble_scheduling: { step: [{}, null, 3] } }, []],
  ])("%s", (_, effective, want) => expect(ensembleSteps(effective)).toEqual(want));
});

describe("runtimeMayChange", () => {
  const versions = [{ version: "1", state: "READY" }, { version: "2", state: "UNAVAILABLE" }] as Version[];
  const three = { state: "READY", ensemble: false, resident: true, instances: 3, versions } as const;
  const runtime = (n: number, process: unknown = null) => ({ instances: Array.from({ length: n }, () => ({ process }) as Instance), environment: null }) as unknown as ModelRuntime;
  it.each([
    ["the server has not answered", three, null, true],
    ["a ready model without instances", three, runtime(0), true],
    ["fewer instances than configured", three, runtime(2), true],
    ["more instances than configured", three, runtime(4), true],
    ["all instances are there", three, runtime(3), false],
    ["instances are processes", three, runtime(3, {}), true],
    ["the model loads", { ...three, state: "LOADING" as const }, runtime(3), true],
    ["an ensemble has none", { ...three, ensemble: true, instances: 1 }, runtime(0), false],
    ["the model is not in memory", { ...three, resident: false }, runtime(0), false],
    ["two versions", { ...three, versions: versions.map((v) => ({ ...v, state: "READY" as const })) }, runtime(6), false],
  ])("%s", (_, model, value, want) => expect(runtimeMayChange(model, value)).toBe(want));
});
