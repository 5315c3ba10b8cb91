import { describe, expect, it } from "vitest";
import type { Prep } from "./image";
import { build } from "./request";
import { clientAddress, curl, python, type Call } from "./snippets";

const call: Call = {
  model: "a b", version: "2", http: "127.0.0.1:8000", grpc: "0.0.0.0:8001", tls: [], token: false,
  inputs: [{ name: "x", dataType: "BYTES", shape: [1, 2], source: { kind: "values", data: ["it's", 'say "hi"'] } }],
  outputs: [{ name: "y", dataType: "FP32", classes: 3 }],
};
const prep: Prep = { width: 8, height: 6, layout: "NCHW", channels: 3, scale: "imagenet", bgr: true, invert: true, fit: "contain" };
const request = (c: Call, binary = false) => build(c.inputs.map((i) => ({ ...i, data: i.source.kind === "values" ? i.source.data : [] })), c.outputs, binary);

describe("curl", () => {
  it("quotes for the shell and escapes the path", () => {
    const s = curl(call, request(call));
    expect(s).toContain("http://127.0.0.1:8000/v2/models/a%20b/versions/2/infer");
    expect(s).toContain(`it'\\''s`);
    expect(s).toContain("-H 'Content-Type: application/json'");
    expect(s).not.toContain("request.bin");
  });
  it("reads a binary body from a file", () => {
    const s = curl(call, request(call, true));
    expect(s).toContain("--data-binary @request.bin");
    expect(s).toMatch(/Inference-Header-Content-Length: \d+/);
  });
});

describe("python", () => {
  it.each(["http", "grpc"] as const)("over %s", (p) => {
    const s = python(call, p);
    expect(s).toContain(`import tritonclient.${p} as ${p}client`);
    expect(s).toContain(`np.array(["it's".encode(), "say \\"hi\\"".encode()], dtype=np.object_).reshape((1, 2))`);
    expect(s).toContain(`${p}client.InferInput("x", [1, 2], "BYTES")`);
    expect(s).toContain('InferRequestedOutput("y", class_count=3)');
    expect(s).toContain('model_version="2"');
    expect(s).toContain(p === "http" ? '"127.0.0.1:8000"' : '"localhost:8001"');
  });

  it("reads a file as it is", () => {
    const of = (dataType: string) => python({ ...call, inputs: [{ name: "x", dataType, shape: [1, 1], source: { kind: "file", file: "a.jpg" } }] }, "http");
    expect(of("UINT8")).toContain('np.fromfile("a.jpg", dtype=np.uint8).reshape((1, 1))');
    expect(of("BYTES")).toContain('np.array([open("a.jpg", "rb").read()], dtype=np.object_).reshape((1, 1))');
  });

  it("uses TLS where the server does", () => {
    const c = { ...call, tls: ["http", "grpc"] };
    expect(curl(c, request(c))).toContain("curl -X POST https://127.0.0.1:8000/");
    expect(python(c, "http")).toContain('InferenceServerClient("127.0.0.1:8000", ssl=True)');
    expect(python({ ...c, stream: true }, "grpc")).toContain('InferenceServerClient("localhost:8001", ssl=True)');
    expect(python(call, "grpc")).toContain('InferenceServerClient("localhost:8001")');
  });

  it("takes a token from the environment where clients need one", () => {
    const c = { ...call, token: true };
    expect(curl(c, request(c))).toContain('-H "Authorization: $NEREID_TOKEN"');
    expect(python(c, "http")).toMatch(/import os\n[^]*headers = \{"Authorization": os.environ\["NEREID_TOKEN"\]\}[^]*client.infer\(.*, headers=headers\)/);
    expect(python({ ...c, stream: true }, "grpc")).toMatch(/\{"authorization": os.environ[^]*start_stream\(.*, headers=headers\)/);
    expect(curl(call, request(call)) + python(call, "grpc")).not.toMatch(/uthorization|import os/);
  });

  it("makes BF16 of ml_dtypes, as tritonclient wants it since 26.06", () => {
    const s = python({ ...call, inputs: [{ name: "x", dataType: "BF16", shape: [2], source: { kind: "values", data: [1, 0.5] } }] }, "http");
    expect(s).toContain('numpy ml_dtypes\n');
    expect(s).toContain("import ml_dtypes\nimport numpy as np\n");
    expect(s).toContain("np.array([1, 0.5], dtype=ml_dtypes.bfloat16)");
    expect(python(call, "http")).not.toContain("ml_dtypes");
  });

  it("prepares an image as the page does, step by step", () => {
    const s = python({ ...call, inputs: [{ name: "x", dataType: "FP32", shape: [1, 3, 6, 8], source: { kind: "image", prep, files: ["cat.png"] } }] }, "http");
    const order = ["Image.open(\"cat.png\")", "ImageOps.pad(image, (8, 6)", "255 - x", "x / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]", "[:, :, ::-1]", "transpose(2, 0, 1)", "reshape((1, 3, 6, 8))"];
    const places = order.map((o) => s.indexOf(o));
    expect(places.every((p) => p > 0)).toBe(true);
    expect([...places].sort((a, b) => a - b)).toEqual(places);
    expect(s).toContain("from PIL import Image, ImageOps");
  });

  it("prepares each image of a batch in a loop", () => {
    const s = python({ ...call, inputs: [{ name: "x", dataType: "FP32", shape: [2, 3, 6, 8], source: { kind: "image", prep, files: ["cat.png", "dog.png"] } }] }, "http");
    expect(s).toContain('for file in ["cat.png", "dog.png"]:\n    image = Image.open(file)');
    expect(s).toContain("    batch.append(values)\nx = np.stack(batch).reshape((2, 3, 6, 8)).astype(np.float32)");
  });

  it("gives parameters as tritonclient takes them", () => {
    const s = python({ ...call, parameters: { temperature: 0.5, priority: 2, echo: true } }, "http");
    expect(s).toContain(', priority=2, parameters={"temperature": 0.5, "echo": True})');
  });

  it("closes the client, also after an error: Python does not end while a stream is open", () => {
    for (const stream of [false, true]) expect(python({ ...call, stream }, "grpc")).toMatch(/^with grpcclient\.InferenceServerClient\(.*\) as client:$/m);
  });

  it("streams over gRPC, and names the sequence", () => {
    const s = python({ ...call, stream: true, sequence: { id: "s 1", start: true, end: false } }, "grpc");
    expect(s).toContain("client.start_stream(");
    expect(s).toContain('sequence_id="s 1", sequence_start=True, sequence_end=False');
    expect(python({ ...call, sequence: { id: "5", start: false, end: true } }, "http")).toContain("outputs=outputs, sequence_id=5, sequence_start=False, sequence_end=True)");
    expect(curl({ ...call, stream: true }, request(call))).toContain("curl -N -X POST");
  });

  it("does not write long data out", () => {
    const c = { ...call, inputs: [{ name: "x", dataType: "FP32", shape: [1, 100], source: { kind: "values" as const, data: new Array<number>(100).fill(0) } }] };
    expect(python(c, "http")).toContain("np.full((1, 100), 0, dtype=np.float32)");
    const other = { ...c, inputs: [{ ...c.inputs[0]!, source: { kind: "values" as const, data: Array.from({ length: 100 }, (_, i) => i) } }] };
    expect(python(other, "http")).toContain('np.load("x.npy")');
  });
});

it.each([["0.0.0.0:8000", "localhost:8000"], ["[::]:8000", "localhost:8000"], [":8000", "localhost:8000"], ["10.0.0.1:8000", "10.0.0.1:8000"]])(
  "clientAddress(%s)", (a, want) => expect(clientAddress(a)).toBe(want));
