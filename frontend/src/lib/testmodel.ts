// A model for tests.
import type { Model } from "./api.gen";

export const model = (name: string, versions: Model["versions"] = []): Model => ({
  name, state: "READY", condition: "", reason: "", versions, backend: "", platform: "", maxBatchSize: 0, dynamicBatching: false, decoupled: false, ensemble: false, sequences: false,
  inputs: [], outputs: [], instances: 1, repository: "", folder: "", configPath: "", configExists: false, memoryBytes: 0, gpuBytes: 0, memorySource: "", gpuSource: "", pinned: false, resident: true,
});
