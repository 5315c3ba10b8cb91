// Turns sound into the values of a tensor.
import type { Tensor } from "../api.gen";
import { t } from "../i18n/index.svelte";
import type { OutputValue } from "./request";

/** Samples a second that most models for speech take. */
export const usualRate = 16_000;
export const rates = [8_000, 16_000, 22_050, 44_100, 48_000] as const;

/** An input with fewer samples is no sound. */
const shortest = 400;
/** An output with fewer values is no sound, whatever its name. */
const shortestOutput = 1000;

/** Reports whether the input may be sound: one dimension of samples, all others 1 or open. */
export function soundable(x: Tensor): boolean {
  if (!/^(FP|INT16)/.test(x.dataType)) return false;
  const [samples = 0, ...others] = [...x.dims].reverse();
  return (samples < 0 || samples >= shortest) && others.every((d) => d < 0 || d === 1);
}

/** Reports whether the input is probably sound, by its name or its fixed length. */
export const looksLikeSound = (x: Tensor) => soundable(x) && /audio|wav|sound|speech|pcm|mic/i.test(x.name);

/**
 * The samples of an output that is sound by its name, its type and its shape: one dimension with all values. null: it is something
 * else.
 */
export function soundOf(o: OutputValue): Float32Array<ArrayBuffer> | null {
  if (!["FP32", "INT16"].includes(o.dataType) || !/audio|wav|sound|speech|pcm/i.test(o.name)) return null;
  if (o.data.length < shortestOutput || o.shape.filter((d) => d !== 1).length !== 1) return null;
  const values = Float32Array.from(o.data, Number);
  if (!values.every(Number.isFinite)) return null;
  return o.dataType === "INT16" ? values.map((v) => v / 32768) : values;
}

/** The shape of a request with n samples; a fixed dimension keeps its size. */
export const soundShape = (x: Tensor, n: number) => x.shape.map((d, i) => (d >= 0 ? d : i === x.shape.length - 1 ? n : 1));

/** Cuts or pads samples of -1..1 to n, in the range of the data type. */
export function samples(sound: Float32Array, n: number, dataType: string): Float32Array {
  const out = new Float32Array(n);
  out.set(sound.subarray(0, n));
  return dataType === "INT16" ? out.map((v) => Math.round(Math.max(-1, Math.min(1, v)) * 32767)) : out;
}

/** Decodes a file or a recording to one channel of rate samples a second. */
export async function decodeSound(file: Blob, rate: number): Promise<Float32Array> {
  const context = new OfflineAudioContext(1, 1, rate);
  try {
    const buffer = await context.decodeAudioData(await file.arrayBuffer());
    const out = new Float32Array(buffer.length);
    for (let c = 0; c < buffer.numberOfChannels; c++) buffer.getChannelData(c).forEach((v, i) => (out[i] = (out[i] ?? 0) + v / buffer.numberOfChannels));
    return out;
  } catch {
    throw new Error(t("input.badSound"));
  }
}

/** The lowest and highest sample of each of n equal parts, for drawing. */
export function envelope(sound: ArrayLike<number>, n: number): [number, number][] {
  return Array.from({ length: n }, (_, i) => {
    let low = 0;
    let high = 0;
    for (let k = Math.floor((i * sound.length) / n); k < Math.floor(((i + 1) * sound.length) / n); k++) {
      low = Math.min(low, sound[k] ?? 0);
      high = Math.max(high, sound[k] ?? 0);
    }
    return [low, high];
  });
}
