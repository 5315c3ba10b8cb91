// The schema of the configuration, fetched once for all editors.
import { client } from "../api";
import { Schema } from "./path";

class SchemaStore {
  value: Schema | null = null;
  private loading: Promise<void> | null = null;

  /** Fetches the schema once. After a failure the next call tries again. Editors also work without it. */
  load(): void {
    this.loading ??= client.fields().then(
      (f) => void (this.value = new Schema(f)),
      () => void (this.loading = null),
    );
  }
}

export const schema = new SchemaStore();
