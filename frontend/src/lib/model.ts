// Functions of a model.
import type { Model, ModelRuntime } from "./api.gen";
import { t } from "./i18n/index.svelte";

/** False if only the folder of a model is known: its configuration has errors, or names no backend. */
export const configured = (m: Model) => m.ensemble || m.backend !== "" || m.platform !== "" || m.inputs.length > 0 || m.outputs.length > 0;

/** The models that an ensemble runs, in the order of its steps, each once. effective is the configuration from the server. */
export function ensembleSteps(effective: unknown): string[] {
  const scheduling = field(effective, "ensemble_scheduling");
  const step = field(scheduling, "step");
  if (!Array.isArray(step)) return [];
  return [...new Set(step.map((s) => field(s, "model_name")).filter((n) => typeof n === "string"))];
}

/** Says how a configuration batches requests. */
export function batching(config: Pick<Model, "maxBatchSize" | "dynamicBatching">): string {
  if (config.maxBatchSize === 0) return t("overview.noBatching");
  return t(config.dynamicBatching ? "overview.dynamicBatching" : "overview.batching", { n: config.maxBatchSize });
}

/** The versions that may be a candidate, in order: those that are not served. others are versions without a state. */
export function candidates(model: Model, others: readonly string[]): string[] {
  const idle = model.versions.filter((v) => v.state === "UNAVAILABLE").map((v) => v.version);
  const unknown = others.filter((n) => !model.versions.some((v) => v.version === n));
  return [...idle, ...unknown].sort((a, b) => Number(a) - Number(b));
}

/**
 * True while the stream of events does not tell all changes of a model's runtime, so that it must be asked for again: it is
 * missing, has processes or an environment, or lacks instances that its configuration has.
 */
export function runtimeMayChange(model: Pick<Model, "state" | "ensemble" | "resident" | "instances" | "versions">, runtime: ModelRuntime | null): boolean {
  if (!runtime || runtime.environment || runtime.instances.some((i) => i.process) || model.state === "LOADING") return true;
  const ready = model.versions.filter((v) => v.state === "READY").length;
  return !model.ensemble && model.resident && runtime.instances.length !== ready * model.instances;
}

function field(of: unknown, name: string): unknown {
  return typeof of === "object" && of !== null && name in of ? (of as Record<string, unknown>)[name] : undefined;
}
