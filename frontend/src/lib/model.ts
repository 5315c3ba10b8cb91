// What the page asks of a model besides its fields.
import type { Model } from "./api.gen";

/** False while nothing is known of a model but its folder: its configuration cannot be read, or names no backend. */
export const configured = (m: Model) => m.ensemble || m.backend !== "" || m.platform !== "" || m.inputs.length > 0 || m.outputs.length > 0;

/** The models that an ensemble runs, in the order of its steps, each once; from the configuration as the server answers it. */
export function ensembleSteps(effective: unknown): string[] {
  const scheduling = field(effective, "ensemble_scheduling");
  const step = field(scheduling, "step");
  if (!Array.isArray(step)) return [];
  return [...new Set(step.map((s) => field(s, "model_name")).filter((n) => typeof n === "string"))];
}

function field(of: unknown, name: string): unknown {
  return typeof of === "object" && of !== null && name in of ? (of as Record<string, unknown>)[name] : undefined;
}
