import { encode } from "uqr";
import { describe, expect, it } from "vitest";
import { curl, qrText, tritonGRPC, tritonHTTP } from "./snippets";

describe("B082 snippets with a token", () => {
  it("sends it raw over both protocols", () => {
    expect(curl("http://192.168.1.5:8000", "nrd_X")).toBe("curl -H 'Authorization: nrd_X' http://192.168.1.5:8000/v2/health/ready -i");
    expect(tritonHTTP("http://192.168.1.5:8000", "nrd_X")).toContain('with triton.InferenceServerClient("192.168.1.5:8000") as client:\n    headers = {"Authorization": "nrd_X"}');
    expect(tritonGRPC("grpc://192.168.1.5:8001", "nrd_X")).toContain('with triton.InferenceServerClient("192.168.1.5:8001") as client:\n    headers = {"authorization": "nrd_X"}');
  });
  it("asks for TLS where the server has it", () => {
    expect(tritonHTTP("https://h:1", "t")).toContain('"h:1", ssl=True');
    expect(tritonGRPC("grpcs://h:1", "t")).toContain('"h:1", ssl=True');
  });
  it("makes a code small enough to scan from a screen", () => {
    const text = qrText("http://[fd00:1234:5678:9abc:def0:1234:5678:9abc]:65535", "nrd_" + "A".repeat(32));
    expect(text).toContain("\nAuthorization: Bearer nrd_");
    expect(encode(text).size).toBeLessThan(60);
    expect(qrText("http://h:1", null)).toBe("http://h:1");
  });
});
