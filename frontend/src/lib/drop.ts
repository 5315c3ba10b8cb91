// Files and folders from a drop or a file dialog, with their relative paths.

export interface Upload {
  /** The relative path, with the name of the dropped folder first. */
  path: string;
  file: File;
}

/** The files of one import. */
export interface Parcel {
  /** The dropped file's or folder's name. */
  source: string;
  files: Upload[];
}

const junk = /(^|\/)(\.DS_Store|Thumbs\.db|desktop\.ini|__MACOSX)(\/|$)/;

/** True in the desktop window, where the program handles drops and gets real paths. */
export const inWindow = () => location.protocol === "wails:" || location.hostname === "wails.localhost";

/**
 * Returns the files of a drop. It must be called inside the drop handler, because the browser no longer provides the
 * entries after it.
 */
export function collect(dt: DataTransfer): Promise<Upload[]> {
  const entries = [...dt.items].filter((i) => i.kind === "file").map((i) => i.webkitGetAsEntry());
  const plain = [...dt.files];
  return walkAll(entries.filter((e) => e !== null), plain);
}

async function walkAll(entries: FileSystemEntry[], plain: File[]): Promise<Upload[]> {
  if (entries.length === 0) return plain.map((file) => ({ path: file.name, file }));
  const lists = await Promise.all(entries.map((e) => walk(e, e.name)));
  return lists.flat();
}

async function walk(e: FileSystemEntry, path: string): Promise<Upload[]> {
  if (junk.test(path)) return [];
  if (isFile(e)) return [{ path, file: await new Promise<File>((ok, bad) => e.file(ok, bad)) }];
  if (!isFolder(e)) return [];
  const out: Upload[] = [];
  const reader = e.createReader();
  for (;;) {
    // Chromium returns at most 100 entries per call, so we read until none are left.
    const some = await new Promise<FileSystemEntry[]>((ok, bad) => reader.readEntries(ok, bad));
    if (some.length === 0) return out;
    for (const child of some) out.push(...(await walk(child, `${path}/${child.name}`)));
  }
}

const isFile = (e: FileSystemEntry): e is FileSystemFileEntry => e.isFile;
const isFolder = (e: FileSystemEntry): e is FileSystemDirectoryEntry => e.isDirectory;

/** Files of an <input type=file>, with the folders of webkitdirectory. */
export function fromInput(files: FileList): Upload[] {
  return [...files].map((file) => ({ path: file.webkitRelativePath || file.name, file })).filter((u) => !junk.test(u.path));
}

/**
 * Sorts what was dropped into imports: each folder, each zip and each .onnx file is one. Other loose files (external
 * data, labels, a config.pbtxt) go with every loose .onnx file; without one they are one import.
 */
export function parcels(uploads: readonly Upload[]): Parcel[] {
  const folders = new Map<string, Upload[]>();
  const loose: Upload[] = [];
  for (const u of uploads) {
    const slash = u.path.indexOf("/");
    if (slash < 0) {
      loose.push(u);
      continue;
    }
    const top = u.path.slice(0, slash);
    folders.set(top, [...(folders.get(top) ?? []), u]);
  }
  const is = (ext: string) => (u: Upload) => u.path.toLowerCase().endsWith(ext);
  const onnx = loose.filter(is(".onnx"));
  const zips = loose.filter(is(".zip"));
  const rest = loose.filter((u) => !onnx.includes(u) && !zips.includes(u));
  const out: Parcel[] = [...folders].flatMap(([source, files]) => modelsIn(source, files));
  for (const z of zips) out.push({ source: z.path, files: [z] });
  for (const o of onnx) out.push({ source: o.path, files: [o, ...rest] });
  const first = rest[0];
  if (onnx.length === 0 && first) out.push({ source: first.path, files: rest });
  return out;
}

/** A folder of several model folders is one import for each; any other folder is one import. */
function modelsIn(source: string, files: Upload[]): Parcel[] {
  const inner = new Map<string, Upload[]>();
  for (const f of files) {
    const [, name = "", ...rest] = f.path.split("/");
    if (rest.length === 0) return [{ source, files }]; // a file of a model, such as config.pbtxt
    inner.set(name, [...(inner.get(name) ?? []), { ...f, path: f.path.slice(source.length + 1) }]);
  }
  const isModel = ([name, list]: [string, Upload[]]) =>
    !/^\d+$/.test(name) && list.some((f) => f.path === `${name}/config.pbtxt` || /^\d+$/.test(f.path.split("/")[1] ?? ""));
  const models = [...inner].filter(isModel);
  return models.length > 1 && models.length === inner.size ? models.map(([name, list]) => ({ source: name, files: list })) : [{ source, files }];
}
