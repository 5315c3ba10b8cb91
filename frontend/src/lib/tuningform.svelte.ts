// The form of a tuning, and the request that it makes.
import type { Model, StartTuning, Tensor } from "./api.gen";

/** The value of a number field. An empty field is undefined or null. */
type NumberField = number | null | undefined;

const whole = (v: NumberField): number => (typeof v === "number" && Number.isFinite(v) ? v : 0);

const listFields = ["maxBatchSizes", "queueDelays", "instanceCounts", "instanceKinds", "threads", "concurrency"] as const;
export type ListField = (typeof listFields)[number];

/** The field of the request for the values of an axis. */
export const listOf: Record<string, ListField> = {
  max_batch_size: "maxBatchSizes", max_queue_delay: "queueDelays", instance_count: "instanceCounts", instance_kind: "instanceKinds", intra_op_threads: "threads", load: "concurrency",
};

/** The inputs that need a shape: those with variable dimensions other than the batch. */
export const freeInputs = (m: Model): Tensor[] => m.inputs.filter((i) => !i.optional && i.dims.some((d) => d < 0));

export class TuningForm {
  objective = $state<"throughput" | "latency">("throughput");
  latencyMs = $state<NumberField>();
  minRate = $state<NumberField>();
  memoryMb = $state<NumberField>();
  gpuMemoryMb = $state<NumberField>();
  search = $state<"quick" | "brute">("quick");
  budget = $state<NumberField>(60);
  batch = $state<NumberField>(1);
  windowMs = $state<NumberField>(1000);
  lists = $state<Record<ListField, string>>({ maxBatchSizes: "", queueDelays: "", instanceCounts: "", instanceKinds: "", threads: "", concurrency: "" });
  /** By input: "3,224,224". */
  shapes = $state<Record<string, string>>({});
  parts = $state(false);
  /** Other models, by name. */
  with = $state<Record<string, boolean>>({});

  request(): StartTuning {
    const trimmed = (f: ListField) => this.lists[f].replace(/\s+/g, "");
    return {
      objective: this.objective, search: this.search, budget: this.search === "quick" ? whole(this.budget) : 0,
      latencyBudgetMs: whole(this.latencyMs), minThroughput: whole(this.minRate), maxMemoryMb: whole(this.memoryMb), maxGpuMemoryMb: whole(this.gpuMemoryMb),
      maxBatchSizes: trimmed("maxBatchSizes"), queueDelays: trimmed("queueDelays"), instanceCounts: trimmed("instanceCounts"),
      instanceKinds: trimmed("instanceKinds"), threads: trimmed("threads"), concurrency: trimmed("concurrency"),
      batch: whole(this.batch), windowMs: whole(this.windowMs), parts: this.parts, with: Object.entries(this.with).filter(([, on]) => on).map(([name]) => name),
      shapes: Object.entries(this.shapes).map(([name, s]) => [name, s.replace(/[\s[\]]+/g, "")] as const).filter(([, s]) => s !== "").map(([name, s]) => `${name}:${s}`),
    };
  }
}
