// The same inference call as a shell command and in Python.
import type { Element } from "./dtype";
import { imagenet, type Prep } from "./image";
import { sequenceParameters, type InferRequest, type OutputWish, type Parameters, type SequencePlace } from "./request";

export type Source = { kind: "image"; prep: Prep; files: string[] } | { kind: "file"; file: string } | { kind: "values"; data: ArrayLike<Element> };

export interface SnippetInput {
  name: string;
  dataType: string;
  shape: number[];
  source: Source;
}

export interface Call {
  model: string;
  /** Empty: the server chooses. */
  version: string;
  inputs: SnippetInput[];
  outputs: OutputWish[];
  sequence?: SequencePlace;
  parameters?: Parameters;
  /** The model answers with any number of responses. */
  stream?: boolean;
  /** host:port of the inference listeners. */
  http: string;
  grpc: string;
  /** The listeners with TLS. */
  tls: readonly string[];
  /** Clients must send a token. The call takes it from the environment. */
  token: boolean;
}

/** The facts about the server that a call needs. */
export type Where = "http" | "grpc" | "tls" | "token";

/** The environment variable with the token of a call. The commands of nereid read it too. */
const tokenVariable = "NEREID_TOKEN";

/** Up to this many values are written in the snippet; more are generated or read from a file. */
const inlineLimit = 64;

/** The address for a client on this machine: localhost for a listener on every interface. */
export const clientAddress = (a: string) => a.replace(/^(0\.0\.0\.0|\[::\]|)(?=:)/, "localhost");

/** The beginning of the URL of an HTTP listener. */
export const scheme = (a: { tls: readonly string[] }, key: string) => (a.tls.includes(key) ? "https://" : "http://");

const shellQuote = (s: string) => `'${s.replaceAll("'", `'\\''`)}'`;

function inferPath(c: Call): string {
  const version = c.version ? `/versions/${encodeURIComponent(c.version)}` : "";
  return `/v2/models/${encodeURIComponent(c.model)}${version}/infer`;
}

/** The name of the file with a large or binary body for curl. */
export const bodyFile = "request.bin";

/** True when the curl call needs the body as a file. */
export const needsFile = (r: InferRequest) => r.binaryBytes > 0 || r.json.length > 4000;

export function curl(c: Call, r: InferRequest): string {
  const lines = [`curl ${c.stream ? "-N " : ""}-X POST ${scheme(c, "http")}${clientAddress(c.http)}${inferPath(c)}`];
  if (c.token) lines.push(`  -H "Authorization: $${tokenVariable}"`);
  for (const [k, v] of Object.entries(r.headers)) lines.push(`  -H ${shellQuote(`${k}: ${v}`)}`);
  lines.push(needsFile(r) ? `  --data-binary @${bodyFile}` : `  -d ${shellQuote(r.json)}`);
  if (c.outputs.some((o) => /^(FP16|BF16)$/.test(o.dataType) && o.classes === 0)) lines.push("  --output reply.bin");
  return lines.join(" \\\n");
}

const numpyTypes: Readonly<Record<string, string>> = {
  BOOL: "bool", UINT8: "np.uint8", UINT16: "np.uint16", UINT32: "np.uint32", UINT64: "np.uint64",
  INT8: "np.int8", INT16: "np.int16", INT32: "np.int32", INT64: "np.int64",
  FP16: "np.float16", FP32: "np.float32", FP64: "np.float64", BYTES: "np.object_",
  BF16: "ml_dtypes.bfloat16", // tritonclient refuses float32 for BF16 since 26.06
};

/** A Python string literal. Escapes of JSON are valid in Python. */
const pyString = (s: string) => JSON.stringify(s);
const pyElement = (e: Element, dataType: string) =>
  dataType === "BYTES" ? `${pyString(String(e))}.encode()` : typeof e === "boolean" ? (e ? "True" : "False") : String(e);
const pyShape = (shape: readonly number[]) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;

/** Python lines that make the array of an input. */
function arrayLines(i: SnippetInput, variable: string): string[] {
  const type = numpyTypes[i.dataType] ?? "np.float32";
  if (i.source.kind === "image") return imageLines(i.source.prep, i.source.files, i.shape, type, variable);
  if (i.source.kind === "file") {
    const file = pyString(i.source.file);
    return i.dataType === "BYTES"
      ? [`${variable} = np.array([open(${file}, "rb").read()], dtype=np.object_).reshape(${pyShape(i.shape)})`]
      : [`${variable} = np.fromfile(${file}, dtype=np.uint8).reshape(${pyShape(i.shape)})`];
  }
  const { data } = i.source;
  const shape = pyShape(i.shape);
  if (data.length <= inlineLimit) {
    const list = Array.from(data, (e) => pyElement(e, i.dataType)).join(", ");
    return [`${variable} = np.array([${list}], dtype=${type}).reshape(${shape})`];
  }
  const first = data[0];
  if (Array.from(data).every((e) => e === first) && first !== undefined) {
    return [`${variable} = np.full(${shape}, ${pyElement(first, i.dataType)}, dtype=${type})`];
  }
  return [`${variable} = np.load("${variable}.npy").astype(${type}).reshape(${shape})  # your ${data.length} values`];
}

function imageLines(p: Prep, files: readonly string[], shape: number[], type: string, v: string): string[] {
  const end = `.reshape(${pyShape(shape)}).astype(${type})`;
  const [file = ""] = files;
  if (files.length <= 1) return [...preparation(p, pyString(file), v), `${v} = np.ascontiguousarray(${v})${end}`];
  const each = [...preparation(p, "file", "values"), "batch.append(values)"].map((line) => `    ${line}`);
  return ["batch = []", `for file in [${files.map(pyString).join(", ")}]:`, ...each, `${v} = np.stack(batch)${end}`];
}

/** Python lines that prepare one image. file: an expression. v: the variable for its values. */
function preparation(p: Prep, file: string, v: string): string[] {
  const out = [`image = Image.open(${file}).convert("RGBA")`];
  out.push(`image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("${p.channels === 1 ? "L" : "RGB"}")`);
  const size = `(${p.width}, ${p.height})`;
  const white = p.channels === 1 ? "255" : `"white"`;
  if (p.fit === "stretch") out.push(`image = image.resize(${size}, Image.BILINEAR)`);
  else if (p.fit === "cover") out.push(`image = ImageOps.fit(image, ${size}, Image.BILINEAR)`);
  else out.push(`image = ImageOps.pad(image, ${size}, Image.BILINEAR, color=${white})`);
  out.push(`${v} = np.asarray(image, dtype=np.float32)`);
  if (p.invert) out.push(`${v} = 255 - ${v}`);
  if (p.scale === "unit") out.push(`${v} = ${v} / 255`);
  if (p.scale === "signed") out.push(`${v} = ${v} / 127.5 - 1`);
  if (p.scale === "imagenet") {
    out.push(
      p.channels === 1
        ? `${v} = (${v} / 255 - ${imagenet.mean[0]}) / ${imagenet.std[0]}`
        : `${v} = (${v} / 255 - [${imagenet.mean.join(", ")}]) / [${imagenet.std.join(", ")}]`,
    );
  }
  if (p.channels === 3 && p.bgr) out.push(`${v} = ${v}[:, :, ::-1]`);
  if (p.channels === 3 && p.layout === "NCHW") out.push(`${v} = ${v}.transpose(2, 0, 1)`);
  return out;
}

/** The arguments of infer for the sequence and the parameters. tritonclient has arguments of their own for two of these. */
function pyOptions(c: Call): string {
  const own = Object.entries(c.parameters ?? {});
  const isArgument = ([name, value]: [string, unknown]) => ["priority", "timeout"].includes(name) && typeof value === "number";
  const rest = own.filter((p) => !isArgument(p)).map(([name, value]) => `${pyString(name)}: ${pyValue(value)}`);
  return [...Object.entries(c.sequence ? sequenceParameters(c.sequence) : {}), ...own.filter(isArgument)].map(([name, value]) => `, ${name}=${pyValue(value)}`).join("")
    + (rest.length > 0 ? `, parameters={${rest.join(", ")}}` : "");
}

const pyValue = (v: string | number | boolean) => (typeof v === "boolean" ? (v ? "True" : "False") : JSON.stringify(v));

/** A whole Python program with tritonclient over HTTP or gRPC. tritonclient streams over gRPC only. */
export function python(c: Call, protocol: "http" | "grpc"): string {
  const images = c.inputs.flatMap((i) => (i.source.kind === "image" ? [i.source.prep] : []));
  const needsOps = images.some((p) => p.fit !== "stretch");
  const mod = `${protocol}client`;
  const bfloat = c.inputs.some((i) => i.dataType === "BF16");
  const extra = (images.length ? " pillow" : "") + (bfloat ? " ml_dtypes" : "");
  const out = [`# pip install "tritonclient[${protocol}]" numpy${extra}`, ...(c.token ? ["import os"] : []), ...(c.stream ? ["import queue"] : []), ...(bfloat ? ["import ml_dtypes"] : []), "import numpy as np", `import tritonclient.${protocol} as ${mod}`];
  if (images.length) out.push(`from PIL import Image${needsOps ? ", ImageOps" : ""}`);
  out.push("");
  const vars = c.inputs.map((_, n) => (c.inputs.length === 1 ? "x" : `x${n}`));
  c.inputs.forEach((i, n) => out.push(...arrayLines(i, vars[n] ?? "x")));
  out.push("", "inputs = [");
  c.inputs.forEach((i) => out.push(`    ${mod}.InferInput(${pyString(i.name)}, [${i.shape.join(", ")}], "${i.dataType}"),`));
  out.push("]");
  c.inputs.forEach((_, n) => out.push(`inputs[${n}].set_data_from_numpy(${vars[n]})`));
  out.push("outputs = [");
  for (const o of c.outputs) out.push(`    ${mod}.InferRequestedOutput(${pyString(o.name)}${o.classes > 0 ? `, class_count=${o.classes}` : ""}),`);
  out.push("]", "");
  const version = c.version ? `, model_version=${pyString(c.version)}` : "";
  const options = pyOptions(c);
  const address = `"${clientAddress(protocol === "http" ? c.http : c.grpc)}"${c.tls.includes(protocol) ? ", ssl=True" : ""}`;
  if (c.token) out.push(`headers = {"${protocol === "grpc" ? "authorization" : "Authorization"}": os.environ["${tokenVariable}"]}`, "");
  const headers = c.token ? ", headers=headers" : "";
  // The program closes the client: at the exit of Python, grpc can wait for ever for one that is open.
  out.push(`with ${mod}.InferenceServerClient(${address}) as client:`);
  const use = c.stream
    ? ["answers = queue.Queue()", `client.start_stream(lambda result, error: answers.put(error or result)${headers})`,
      `client.async_stream_infer(${pyString(c.model)}, inputs${version}, outputs=outputs${options}, enable_empty_final_response=True)`,
      "while True:", "    result = answers.get()", "    if isinstance(result, Exception):", "        raise result",
      "    response = result.get_response()", "    if response.outputs:", `        print(${c.outputs.map((o) => `result.as_numpy(${pyString(o.name)})`).join(", ")})`,
      '    if response.parameters["triton_final_response"].bool_param:', "        break"]
    : [`result = client.infer(${pyString(c.model)}, inputs${version}, outputs=outputs${options}${headers})`,
      ...c.outputs.map((o) => `print(${pyString(o.name)}, result.as_numpy(${pyString(o.name)}))`)];
  return [...out, ...use.map((line) => `    ${line}`)].join("\n") + "\n";
}
