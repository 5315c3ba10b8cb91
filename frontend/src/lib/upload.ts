// Uploads with progress. They use XMLHttpRequest, because fetch does not report progress.
import { ApiError, base, escapePath } from "./api";
import { t } from "./i18n/index.svelte";
import type { Upload } from "./drop";

const parallel = 3;

/** Uploads every file of an import. onProgress gets the bytes sent so far. */
export function uploadAll(id: string, files: readonly Upload[], onProgress: (sent: number) => void, signal: AbortSignal): Promise<void> {
  return putAll(`/api/imports/${encodeURIComponent(id)}/files/`, files, onProgress, signal);
}

/** Uploads files below a path of the server. */
export async function putAll(below: string, files: readonly Upload[], onProgress: (sent: number) => void, signal: AbortSignal): Promise<void> {
  const sent = files.map(() => 0);
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < files.length; i = next++) {
      const u = files[i];
      if (!u) return;
      const at = i;
      await put(`${base()}${below}${escapePath(u.path)}`, u.file, signal, (n) => {
        sent[at] = n;
        onProgress(sent.reduce((a, b) => a + b, 0));
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, files.length) }, worker));
}

function put(url: string, body: Blob, signal: AbortSignal, onSent: (n: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open("PUT", url);
    x.setRequestHeader("X-Nereid", "1");
    x.setRequestHeader("Content-Type", "application/octet-stream");
    x.upload.onprogress = (e) => onSent(e.loaded);
    x.onload = () => {
      if (x.status >= 200 && x.status < 300) {
        onSent(body.size);
        resolve();
      } else reject(new ApiError(errorOf(x.responseText) || `HTTP ${x.status}`, "internal", x.status));
    };
    x.onerror = () => reject(new ApiError(t("import.cutOff"), "offline", 0));
    x.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal.addEventListener("abort", () => x.abort(), { once: true });
    if (signal.aborted) x.abort();
    else x.send(body);
  });
}

function errorOf(text: string): string {
  try {
    const v: unknown = JSON.parse(text);
    return typeof v === "object" && v !== null && "error" in v ? String(v.error) : text;
  } catch {
    return text;
  }
}
