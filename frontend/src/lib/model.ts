// Functions of a model.
import type { Model } from "./api.gen";

/** False if only the folder of a model is known: its configuration has errors, or names no backend. */
export const configured = (m: Model) => m.ensemble || m.backend !== "" || m.platform !== "" || m.inputs.length > 0 || m.outputs.length > 0;

/** The models that an ensemble runs, in the order of its steps, each once. effective is the configuration from the server. */
export function ensembleSteps(effective: unknown): string[] {
  const scheduling = field(effective, "ensemble_scheduling");
  const step = field(scheduling, "step");
  if (!Array.isArray(step)) return [];
  return [...new Set(step.map((s) => field(s, "model_name")).filter((n) => typeof n === "string"))];
}

function field(of: unknown, name: string): unknown {
  return typeof of === "object" && of !== null && name in of ? (of as Record<string, unknown>)[name] : undefined;
}
