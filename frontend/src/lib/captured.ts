// The kept contents of requests, for showing.
import type { CapturedTensor } from "./api.gen";
import { decode, sizes, type Element } from "./tryit/dtype";
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
