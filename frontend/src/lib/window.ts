// What the desktop window tells the page that it carries.

/** Detail of the event nereid-files, as app/desktop sends it. */
interface WindowFiles {
  /** Where the files were dropped, in CSS pixels; -1 when they come from the menu. */
  x: number;
  y: number;
  /** Absolute paths on this machine, which is the server's too. */
  paths: string[];
}

function isWindowFiles(v: unknown): v is WindowFiles {
  return typeof v === "object" && v !== null && "paths" in v && Array.isArray(v.paths);
}

/**
 * Calls open with the files that were dropped on the window or chosen in its menu, and returns how to stop. A drop on
 * an element with data-drop is that element's own: it gets the files as in a browser.
 */
export function onWindowFiles(open: (paths: string[]) => void): () => void {
  const hear = (e: Event) => {
    if (!(e instanceof CustomEvent) || !isWindowFiles(e.detail)) return;
    const { x, y, paths } = e.detail;
    if (x >= 0 && document.elementFromPoint(x, y)?.closest("[data-drop]")) return;
    open(withoutCompanions(paths));
  };
  window.addEventListener("nereid-files", hear);
  return () => window.removeEventListener("nereid-files", hear);
}

/** Leaves away the files that the server takes along with an ONNX file beside them: those with its large tensors. */
export function withoutCompanions(paths: readonly string[]): string[] {
  const taken = new Set(
    paths
      .filter((p) => p.toLowerCase().endsWith(".onnx"))
      .flatMap((p) => {
        const stem = p.slice(0, -".onnx".length);
        return [`${p}.data`, `${p}_data`, `${stem}.data`, `${stem}.weights`, `${stem}.bin`];
      }),
  );
  return paths.filter((p) => !taken.has(p));
}
