// The interface between the page and the desktop window.
import { inWindow } from "./drop";

declare global {
  interface Window {
    /** Wails puts this into the page in the window. */
    runtime?: { EventsEmit(name: string, ...data: unknown[]): void };
  }
}

/** Detail of the event nereid-files, as app/desktop sends it. */
interface WindowFiles {
  /** Position of the drop in CSS pixels; -1 for files from the menu or a command line. */
  x: number;
  y: number;
  /** Absolute paths on this machine, which is the server's too. */
  paths: string[];
  /** The address below which the page can read dropped files; the first one is /0. */
  from: string;
}

function isWindowFiles(v: unknown): v is WindowFiles {
  return typeof v === "object" && v !== null && "paths" in v && Array.isArray(v.paths);
}

interface Handlers {
  /** Models to open, by their paths. */
  open: (paths: string[]) => void;
  failed: (error: unknown) => void;
}

/**
 * Hears what was dropped on the window, chosen in its menu or named when it was started, and returns how to stop. A drop on an element with
 * data-drop is that element's own: it gets the first file in an event nereid-file, because WebKit on Linux gives it none.
 */
export function onWindowFiles(h: Handlers): () => void {
  const hear = (e: Event) => {
    if (!(e instanceof CustomEvent) || !isWindowFiles(e.detail)) return;
    const { x, y, paths, from } = e.detail;
    const own = x >= 0 ? document.elementFromPoint(x, y)?.closest("[data-drop]") : null;
    const first = paths[0];
    if (!own || first === undefined) {
      h.open(withoutCompanions(paths));
      return;
    }
    read(`${from}/0`, baseName(first))
      .then((file) => own.dispatchEvent(new CustomEvent("nereid-file", { detail: file })))
      .catch(h.failed);
  };
  window.addEventListener("nereid-files", hear);
  if (inWindow()) window.runtime?.EventsEmit("nereid-ready"); // files of a command line have waited for this
  return () => window.removeEventListener("nereid-files", hear);
}

async function read(address: string, name: string): Promise<File> {
  const res = await fetch(address);
  if (!res.ok) throw new Error((await res.text()).trim());
  const blob = await res.blob();
  return new File([blob], name, { type: blob.type });
}

/** The last part of a path. */
export const baseName = (path: string) => path.split(/[/\\]/).pop() || path;

/** Removes the files that the server takes along with an ONNX file: its external data. */
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

/** Saves bytes in a file: with a dialog in the window, as a download in a browser. */
export async function saveAs(name: string, data: Blob): Promise<void> {
  if (inWindow()) {
    window.runtime?.EventsEmit("nereid-save", { name, data: await base64(data) });
    return;
  }
  const url = URL.createObjectURL(data);
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function base64(data: Blob): Promise<string> {
  return new Promise((ok, bad) => {
    const r = new FileReader();
    r.onload = () => ok(String(r.result).replace(/^[^,]*,/, ""));
    r.onerror = () => bad(r.error ?? new Error("the data cannot be read"));
    r.readAsDataURL(data);
  });
}

interface Saved {
  path: string;
  error: string;
}

function isSaved(v: unknown): v is Saved {
  return typeof v === "object" && v !== null && "path" in v && "error" in v;
}

/**
 * Makes links with a download attribute work in the window, which would otherwise leave the page for them. Calls done
 * with the path where something was saved, or failed with the reason. Returns how to stop.
 */
export function saveLinks(h: { done: (path: string) => void; failed: (error: string) => void }): () => void {
  const click = (e: MouseEvent) => {
    const a = e.target instanceof Element ? e.target.closest<HTMLAnchorElement>("a[download]") : null;
    if (!a || !inWindow()) return;
    e.preventDefault();
    const url = new URL(a.href);
    window.runtime?.EventsEmit("nereid-save", { name: a.download, path: url.pathname + url.search });
  };
  const saved = (e: Event) => {
    if (!(e instanceof CustomEvent) || !isSaved(e.detail)) return;
    if (e.detail.error) h.failed(e.detail.error);
    else h.done(e.detail.path);
  };
  document.addEventListener("click", click);
  window.addEventListener("nereid-saved", saved);
  return () => {
    document.removeEventListener("click", click);
    window.removeEventListener("nereid-saved", saved);
  };
}
