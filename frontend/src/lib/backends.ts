// The rows of the server page's list of backends.
import type { Server } from "./api.gen";
import { t, type Key } from "./i18n/index.svelte";

export interface BackendRow {
  name: string;
  note: string;
  /** The note says why the backend does not work. */
  bad: boolean;
  /** Path of the library of the backend; "" if there is none. */
  library: string;
}

const builtIn: Record<string, Key> = {
  identity: "server.backend.identity",
  repeat: "server.backend.repeat",
  square: "server.backend.square",
  add_sub: "server.backend.add_sub",
  sequence: "server.backend.sequence",
  dyna_sequence: "server.backend.dyna_sequence",
  iterative_sequence: "server.backend.iterative_sequence",
};

const ours: Record<string, Key> = {
  python: "server.backend.python",
  openvino: "server.backend.openvino",
  fil: "server.backend.fil",
  pytorch: "server.backend.pytorch",
  tensorflow: "server.backend.tensorflow",
};

/** One row per backend that a model can name. Backends that need a library come first. */
export function backendRows(s: Pick<Server, "backends" | "onnxRuntime">): BackendRow[] {
  const rows = s.backends.map(({ name, note }): BackendRow => {
    if (name === "onnxruntime") {
      const { version, library, error } = s.onnxRuntime;
      return { name, note: error || `ONNX Runtime ${version || t("server.notLoaded")}`, bad: error !== "", library };
    }
    const key = builtIn[name] ?? ours[name];
    return { name, note: note || (key ? t(key) : ""), bad: false, library: "" };
  });
  return rows.sort((a, b) => Number(a.name in builtIn) - Number(b.name in builtIn));
}
