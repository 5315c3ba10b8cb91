// The descriptor of the configuration language, fetched once for all editors.
import { client } from "../api";
import { Schema } from "./path";

class SchemaStore {
  value: Schema | null = null;
  private asked: Promise<void> | null = null;

  /** Fetches it if that was not done; a failure is tried again at the next call. Editors work without it. */
  load(): void {
    this.asked ??= client.fields().then(
      (f) => void (this.value = new Schema(f)),
      () => void (this.asked = null),
    );
  }
}

export const schema = new SchemaStore();
