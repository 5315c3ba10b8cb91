import { describe, expect, it } from "vitest";
import { ensembleSteps } from "./model";

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
