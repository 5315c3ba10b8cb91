// One request to two versions of a model, and what the console says of the replies.
import type { ComparedReply, Comparison } from "../api.gen";
import { client } from "../api";
import { build, parseReply, type InputValue, type OutputValue, type Parameters } from "./request";

/** Requests to each version; the median of their times is shown. */
const repeat = 5;

/** Compares two versions. Outputs are requested as values, never as classes. */
export function compare(model: string, first: string, second: string, inputs: InputValue[], parameters: Parameters): Promise<Comparison> {
  const r = build(inputs, [], true, { binaryOutputs: true, parameters });
  return client.compare(model, first, second, repeat, r.body, r.headers);
}

const read = new WeakMap<ComparedReply, OutputValue[]>();

/** The outputs of a reply, none if it failed. */
export function comparedOutputs(r: ComparedReply): OutputValue[] {
  let out = read.get(r);
  if (!out) {
    const body = Uint8Array.from(atob(r.body), (c) => c.charCodeAt(0));
    out = r.error ? [] : parseReply(body.buffer, r.jsonLength === "" ? null : r.jsonLength).outputs;
    read.set(r, out);
  }
  return out;
}
