// Client calls with a token, ready to paste, and the text of QR codes.

/** The scopes of tokens, by the server's names. */
export const scopes = ["infer", "control", "view", "admin"] as const;
export type Scope = (typeof scopes)[number];

/** A client call with a token. http and grpc are URLs such as http://192.168.1.5:8000 and grpc://192.168.1.5:8001. */
export function curl(http: string, token: string): string {
  return `curl -H 'Authorization: ${token}' ${http}/v2/health/ready -i`;
}

const bare = (url: string) => url.replace(/^\w+:\/\//, "");
const secure = (url: string) => /^(https|grpcs):/.test(url);

export function tritonHTTP(http: string, token: string): string {
  return [
    "import tritonclient.http as triton",
    "",
    `with triton.InferenceServerClient("${bare(http)}"${secure(http) ? ", ssl=True" : ""}) as client:`,
    `    headers = {"Authorization": "${token}"}`,
    "    print(client.is_server_ready(headers=headers))",
  ].join("\n");
}

export function tritonGRPC(grpc: string, token: string): string {
  return [
    "import tritonclient.grpc as triton",
    "",
    `with triton.InferenceServerClient("${bare(grpc)}"${secure(grpc) ? ", ssl=True" : ""}) as client:`,
    `    headers = {"authorization": "${token}"}`,
    "    print(client.is_server_ready(headers=headers))",
  ].join("\n");
}

/** The text of a QR code: the address, or the address with a token header. */
export function qrText(url: string, token: string | null): string {
  return token === null ? url : `${url}\nAuthorization: Bearer ${token}`;
}
