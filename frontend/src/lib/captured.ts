// The kept contents of requests, for showing.
import type { CapturedTensor, RequestContents } from "./api.gen";
import { t } from "./i18n/index.svelte";
import { decode, encode, sizes, type Element } from "./tryit/dtype";
import { otherParameters, type InputValue } from "./tryit/request";
import { volume } from "./tryit/values";

/** Bytes of a tensor that are looked at for its first values. */
const looked = 64 << 10;
/** How many values are shown, and how many characters of a text. */
export const shownValues = 24;
const shownText = 200;

/** The first values of a tensor whose data are kept. */
export function firstValues(c: Pick<CapturedTensor, "dataType" | "shape" | "data">): { values: Element[]; of: number } {
  const of = volume(c.shape);
  const raw = Uint8Array.from(atob(c.data.slice(0, Math.ceil(looked / 3) * 4)), (ch) => ch.charCodeAt(0));
  const n = Math.min(of, shownValues);
  const values = c.dataType === "BYTES" ? firstTexts(raw, n) : decode(c.dataType, raw.subarray(0, n * (sizes[c.dataType] ?? 0)));
  return { values, of };
}

/** Reads BYTES elements, and cuts those that are long. */
function firstTexts(raw: Uint8Array, most: number): Element[] {
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
  const out: string[] = [];
  for (let at = 0; out.length < most && at + 4 <= raw.length; ) {
    const end = at + 4 + view.getUint32(at, true);
    const text = new TextDecoder().decode(raw.subarray(at + 4, Math.min(end, at + 4 + shownText)));
    out.push(end > at + 4 + shownText ? `${text}…` : text);
    at = end;
  }
  return out;
}

/** The request has all of its contents. A text says what lacks. */
export const lacks = (c: RequestContents) => c.inputs.find((x) => x.leftOut)?.name ?? "";

/** The inputs of a request that lacks none of them. It throws if one has bytes that are no text. */
export function inputsOf(c: RequestContents): InputValue[] {
  return c.inputs.map((x) => {
    const raw = Uint8Array.from(atob(x.data), (ch) => ch.charCodeAt(0));
    const data = decode(x.dataType, raw);
    if (x.dataType === "BYTES" && encode("BYTES", data).some((b, i) => b !== raw[i])) throw new Error(t("input.of", { name: x.name, reason: t("saved.notText") }));
    return { name: x.name, dataType: x.dataType, shape: x.shape, data };
  });
}

/** The parameters of a request that are kept, without those that place it in a sequence. */
export const parametersOf = (c: RequestContents) => otherParameters(Object.fromEntries(c.parameters.filter((p) => !p.leftOut).map((p) => [p.name, JSON.parse(p.value) as unknown])));

/** A file with the request and its answer as a golden request: what a version must answer before it serves. */
export function goldenOf(c: RequestContents): string {
  const all = (list: readonly CapturedTensor[]) => Object.fromEntries(list.map((x) => [x.name, { b64: x.data, shape: x.shape }]));
  return JSON.stringify({ data: [all(c.inputs)], validation_data: [all(c.outputs.filter((x) => !x.leftOut))] }, null, 1) + "\n";
}
