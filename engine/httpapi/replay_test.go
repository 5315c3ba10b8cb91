package httpapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// answer is a reply that a client received.
type answer struct {
	status     string // "200 OK"
	kind       string // Content-Type
	jsonLength string // Inference-Header-Content-Length
	body       string
	header     http.Header
	close      bool
}

// okJSON, badJSON and badText are the usual answers: 200 with a body, and 400 with an error's text.
func okJSON(body string) answer { return answer{status: "200 OK", kind: typeJSON, body: body} }

func badJSON(text string) answer {
	return answer{status: "400 Bad Request", kind: typeJSON, body: `{"error":"` + text + `"}`}
}

func badText(text string) answer {
	return answer{status: "400 Bad Request", kind: typeText, body: `{"error":"` + text + `"}`}
}

// send sends one request without changes and reads the reply.
func send(t testing.TB, conn net.Conn, request string) answer {
	t.Helper()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return receive(t, bufio.NewReader(conn), strings.SplitN(request, " ", 2)[0])
}

func receive(t testing.TB, r *bufio.Reader, method string) answer {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no reply: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reply's body: %v", err)
	}
	if cl := resp.Header.Get("Content-Length"); method != "HEAD" && cl != strconv.Itoa(len(body)) {
		t.Errorf("Content-Length %q with %d bytes", cl, len(body))
	}
	return answer{
		status: resp.Status, kind: resp.Header.Get("Content-Type"),
		jsonLength: resp.Header.Get("Inference-Header-Content-Length"),
		body:       string(body), header: resp.Header, close: resp.Close,
	}
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// request returns an HTTP/1.1 request; headers are "Name: value" lines.
func request(method, path, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" || method == "POST" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.String()
}

const (
	zeroTo15   = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
	addSubJSON = `{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32","data":[` + zeroTo15 + `]},` +
		`{"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":[` + zeroTo15 + `]}]}`
	addSubReply = `{"model_name":"add_sub","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"INT32",` +
		`"shape":[1,16],` +
		`"data":[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30]},{"name":"OUTPUT1","datatype":"INT32","shape":[1,16],` +
		`"data":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}`
)

// int32s returns 0 to 15 as a binary tensor.
func int32s() string {
	var b []byte
	for i := range uint32(16) {
		b = le.AppendUint32(b, i)
	}
	return string(b)
}

// withBinary returns a body with a JSON part and a binary part, and the header with the length of the first.
func withBinary(jsonPart, tail string) (body, header string) {
	return jsonPart + tail, "Inference-Header-Content-Length: " + strconv.Itoa(len(jsonPart))
}

// oneInput returns the body of a request with one input.
func oneInput(shape, datatype, data string) string {
	return `{"inputs": [{"name": "INPUT0", "shape": ` + shape + `, "datatype": "` + datatype + `", "data": ` + data +
		`}]}`
}

const addSubPath = "/v2/models/add_sub/infer"

// The replies of infer are those recorded from Triton 2.51. A deviation on purpose has its id (DV…) in the name.
func TestInferReplies_B010(t *testing.T) {
	s := serve(t)
	binaryIn, binaryInHeader := withBinary(`{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32",`+
		`"parameters":{"binary_data_size":64}},`+
		`{"name":"INPUT1","shape":[1,16],"datatype":"INT32","parameters":{"binary_data_size":64}}]}`, int32s()+int32s())
	allBinary, allBinaryHeader := withBinary(strings.Replace(binaryIn[:len(binaryIn)-128], `}}]}`,
		`}}],"parameters":{"binary_data_output":true}}`, 1), int32s()+int32s())
	oneBinary, oneBinaryHeader := withBinary(strings.Replace(binaryIn[:len(binaryIn)-128], `}}]}`,
		`}}],"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}},{"name":"OUTPUT1"}]}`, 1), int32s()+
		int32s())
	mixed, mixedHeader := withBinary(`{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32",`+
		`"parameters":{"binary_data_size":64}},`+
		`{"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":[`+zeroTo15+`]}]}`, int32s())
	var doubled []byte
	for i := range uint32(16) {
		doubled = le.AppendUint32(doubled, 2*i)
	}
	tests := []struct {
		name, path, body string
		headers          []string
		want             answer
	}{
		{name: "B024 json", body: addSubJSON, want: okJSON(addSubReply)},
		{name: "version in the path", path: "/v2/models/add_sub/versions/1/infer", body: addSubJSON,
			want: okJSON(addSubReply)},
		{name: "nested data", body: strings.ReplaceAll(addSubJSON, "["+zeroTo15+"]", "[["+zeroTo15+"]]"),
			want: okJSON(addSubReply)},
		{name: "data before its type", body: strings.ReplaceAll(addSubJSON,
			`"shape":[1,16],"datatype":"INT32","data":[`+zeroTo15+`]`,
			`"data":[`+zeroTo15+`],"datatype":"INT32","shape":[1,16]`), want: okJSON(addSubReply)},
		{name: "B025 B026 id and outputs", body: strings.TrimSuffix(addSubJSON, "}") +
			`,"id":"my-id","outputs":[{"name":"OUTPUT1"}]}`,
			want: okJSON(`{"id":"my-id","model_name":"add_sub","model_version":"1","outputs":[` +
				`{"name":"OUTPUT1","datatype":"INT32","shape":[1,16],"data":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}`)},
		{name: "duplicate output", body: strings.TrimSuffix(addSubJSON, "}") +
			`,"outputs":[{"name":"OUTPUT0"},{"name":"OUTPUT0"}]}`,
			want: okJSON(`{"model_name":"add_sub","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"INT32","shape":[1,16],"data":[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30]}]}`)},
		{name: "unused keys and parameters", body: strings.TrimSuffix(addSubJSON, "}") +
			`,"unused":{"a":[1,{"b":null}],"c":"\u0041"},"parameters":{"p":1,"q":"x","r":true,"priority":1,` +
			`"timeout":1000}}`,
			want: okJSON(addSubReply)},
		{name: "binary in, json out", body: binaryIn, headers: []string{binaryInHeader},
			want: okJSON(addSubReply)},
		{name: "B031 B032 binary both ways", body: allBinary, headers: []string{allBinaryHeader},
			want: answer{status: "200 OK", kind: typeBinary, jsonLength: "236",
				body: `{"model_name":"add_sub","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"INT32",` +
					`"shape":[1,16],` +
					`"parameters":{"binary_data_size":64}},{"name":"OUTPUT1","datatype":"INT32","shape":[1,16],` +
					`"parameters":{"binary_data_size":64}}]}` + string(doubled) + strings.Repeat("\x00", 64)}},
		{name: "one output binary", body: oneBinary, headers: []string{oneBinaryHeader},
			want: answer{status: "200 OK", kind: typeBinary, jsonLength: "240",
				body: `{"model_name":"add_sub","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"INT32",` +
					`"shape":[1,16],` +
					`"parameters":{"binary_data_size":64}},{"name":"OUTPUT1","datatype":"INT32","shape":[1,16],` +
					`"data":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}` + string(doubled)}},
		{name: "B034 mixed inputs", body: mixed, headers: []string{mixedHeader}, want: okJSON(addSubReply)},
		{name: "overflow of INT32 wraps", body: strings.Replace(addSubJSON, "["+zeroTo15,
			"[4294967296,4294967297,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 1),
			want: okJSON(addSubReply)},
		{name: "B049 classification", path: "/v2/models/multi/infer", body: strings.TrimSuffix(oneInput("[1, 16]",
			"FP32", "["+zeroTo15+"]"), "}") +
			`,"outputs":[{"name":"OUTPUT0","parameters":{"classification":3}}]}`,
			want: okJSON(`{"model_name":"multi","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"BYTES","shape":[1,3],"data":["15.000000:15:label15","14.000000:14:label14",` +
				`"13.000000:13:label13"]}]}`)},
		{name: "classification without labels", path: "/v2/models/identity_ort/infer",
			body: strings.TrimSuffix(oneInput("[1, 16]", "FP32", "["+zeroTo15+"]"), "}") +
				`,"outputs":[{"name":"OUTPUT0","parameters":{"classification":2}}]}`,
			want: okJSON(`{"model_name":"identity_ort","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"BYTES","shape":[1,2],"data":["15.000000:15","14.000000:14"]}]}`)},
		{name: "B029 BYTES", path: "/v2/models/id_bytes/infer", body: oneInput("[3]", "BYTES",
			`["a", "bc\u00e9\n", ""]`),
			want: okJSON(`{"model_name":"id_bytes","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"BYTES","shape":[3],"data":["a","bcé\n",""]}]}`)},
		{name: "B027 INT64 exact", path: "/v2/models/id_any/infer", body: oneInput("[3]", "INT64",
			`[9007199254740993, -5, -9223372036854775808]`),
			want: okJSON(`{"model_name":"id_any","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"INT64","shape":[3],"data":[9007199254740993,-5,-9223372036854775808]}]}`)},
		{name: "UINT64 exact", path: "/v2/models/id_any/infer", body: oneInput("[2]", "UINT64",
			`[18446744073709551615, 0]`),
			want: okJSON(`{"model_name":"id_any","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"UINT64","shape":[2],"data":[18446744073709551615,0]}]}`)},
		{name: "BOOL", path: "/v2/models/id_any/infer", body: oneInput("[2]", "BOOL", `[true, false]`),
			want: okJSON(`{"model_name":"id_any","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"BOOL","shape":[2],"data":[true,false]}]}`)},
		{name: "BOOL of a number", path: "/v2/models/id_any/infer", body: oneInput("[3]", "BOOL", `[true, false, 1]`),
			want: badJSON(`Unable to parse 'data': attempt to access JSON non-boolean as boolean`)},
		{name: "B035 zero elements", path: "/v2/models/id_any/infer", body: oneInput("[0,3]", "FP32", `[]`),
			want: okJSON(`{"model_name":"id_any","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"FP32","shape":[0,3],"data":[]}]}`)},
		{name: "B028 FP16 by JSON", path: "/v2/models/id_any/infer", body: oneInput("[2]", "FP16", `[1.5, 2]`),
			want: badJSON(`receiving FP16 data via JSON is not supported. ` +
				`Please use the binary data format for input INPUT0`)},
		{name: "B030 NaN and infinities", path: "/v2/models/id_any/infer",
			body: oneInput("[3]", "FP32", `[NaN, Infinity, -Infinity]`),
			want: okJSON(`{"model_name":"id_any","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"FP32","shape":[3],"data":[NaN,Infinity,-Infinity]}]}`)},
		{name: "B052 response parameters", path: "/v2/models/parameters/infer", body: oneInput("[1]", "FP32", `[1]`),
			want: okJSON(`{"model_name":"parameters","model_version":"1","parameters":{` +
				`"param0":"an example string parameter","param1":42,"param2":false,"param3":123.123},"outputs":[]}`)},
		{name: "unknown model", path: "/v2/models/nope/infer", body: addSubJSON,
			want: answer{status: "404 Not Found", kind: typeText,
				body: `{"error":"Request for unknown model: 'nope' is not found"}`}},
		{name: "version not a number", path: "/v2/models/add_sub/versions/abc/infer", body: addSubJSON,
			want: answer{status: "404 Not Found", kind: typeText, body: `{"error":"Not Found"}`}},
		{name: "malformed json", body: `{"inputs":[`,
			want: badJSON(`failed to parse the request JSON buffer: Invalid value. at 11`)},
		{name: "json then junk", body: addSubJSON + "x",
			want: badJSON(`failed to parse the request JSON buffer: The document root must not be followed by ` +
				`other values. at ` +
				strconv.Itoa(len(addSubJSON)) + ``)},
		{name: "empty body", body: "", want: badJSON(`[request id: <id_unknown>] ` +
			`Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'add_sub' model ` +
			`configuration`)},
		{name: "json array", body: "[]", want: badJSON(`Unable to parse 'inputs': attempt to access non-existing ` +
			`object member 'inputs'`)},
		{name: "empty object", body: "{}", want: badJSON(`Unable to parse 'inputs': attempt to access non-existing ` +
			`object member 'inputs'`)},
		{name: "inputs not an array", body: `{"inputs": {}}`,
			want: badJSON(`Unable to parse 'inputs': attempt to access JSON non-array as array`)},
		{name: "duplicate input", body: strings.Replace(addSubJSON, "INPUT1", "INPUT0", 1),
			want: badJSON(`[request id: <id_unknown>] input 'INPUT0' already exists in request`)},
		{name: "output without a name", body: strings.TrimSuffix(addSubJSON, "}") + `,"outputs":[{}]}`,
			want: answer{status: "400 Bad Request",
				kind: typeJSON, body: `{"error":"Unable to parse 'name': attempt to access non-existing object ` +
					`member 'name'"}`}},
		{name: "fewer data than shape", body: strings.Replace(addSubJSON, "0,1,", "", 1),
			want: badJSON(`Unable to parse 'data': Shape does not match true shape of 'data' field`)},
		{name: "more data than shape", body: strings.Replace(addSubJSON, "0,1,", "0,1,1,", 1),
			want: badJSON(`Unable to parse 'data': Shape does not match true shape of 'data' field`)},
		{name: "unknown datatype", body: strings.Replace(addSubJSON, "INT32", "INT31", 1),
			want: badJSON(`invalid datatype for input INPUT0`)},
		{name: "no datatype", body: strings.Replace(addSubJSON, `"datatype"`, `"x"`, 1),
			want: badJSON(`Unable to parse 'datatype': attempt to access non-existing object member 'datatype'`)},
		{name: "no shape", body: strings.Replace(addSubJSON, `"shape"`, `"x"`, 1),
			want: badJSON(`Unable to parse 'shape': attempt to access non-existing object member 'shape'`)},
		{name: "no name", body: strings.Replace(addSubJSON, `"name"`, `"x"`, 1),
			want: badJSON(`Unable to parse 'name': attempt to access non-existing object member 'name'`)},
		{name: "no data", body: strings.Replace(addSubJSON, `"data"`, `"x"`, 1),
			want: badJSON(`Input must set only one of the following fields: 'data', 'binary_data_size' in ` +
				`'parameters', ` +
				`'shared_memory_region' in 'parameters'. But no field is set`)},
		{name: "negative dim", body: strings.Replace(addSubJSON, `[1,16]`, `[-1,16]`, 1),
			want: badJSON(`Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer`)},
		{name: "string in INT32 data", body: strings.Replace(addSubJSON, "[0,", `["0",`, 1),
			want: badJSON(`Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer`)},
		{name: "float in INT32 data", body: strings.Replace(addSubJSON, "[0,", `[0.0,`, 1),
			want: badJSON(`Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer`)},
		{name: "null in INT32 data", body: strings.Replace(addSubJSON, "[0,", `[null,`, 1),
			want: badJSON(`Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer`)},
		{name: "data not an array", body: strings.Replace(addSubJSON, "["+zeroTo15+"]", `5`, 1),
			want: badJSON(`Unable to parse 'data': attempt to access JSON non-array as array`)},
		{name: "shape not an array", body: strings.Replace(addSubJSON, "[1,16]", `16`, 1),
			want: badJSON(`Unable to parse 'shape': attempt to access JSON non-array as array`)},
		{name: "shape of strings", body: strings.Replace(addSubJSON, "[1,16]", `["1","16"]`, 1),
			want: badJSON(`Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer`)},
		{name: "id not a string", body: strings.TrimSuffix(addSubJSON, "}") + `,"id":5}`,
			want: badJSON(`Unable to parse 'id': attempt to access JSON non-string as string`)},
		{name: "bad parameter type", body: strings.TrimSuffix(addSubJSON, "}") + `,"parameters":{"foo":[1]}}`,
			want: answer{status: "400 Bad Request",
				kind: typeJSON, body: `{"error":"parameter 'foo' has invalid type. It should be either 'int', ` +
					`'bool', or 'string'."}`}},
		{name: "B048 reserved parameter", body: strings.TrimSuffix(addSubJSON, "}") + `,"parameters":{"triton_x":1}}`,
			want: answer{status: "400 Bad Request",
				kind: typeJSON, body: `{"error":"parameter keys starting with 'triton_' are reserved for Triton ` +
					`usage and should not be specified."}`}},
		{name: "binary size under the tail", body: strings.Replace(binaryIn, "64", "60", 1),
			headers: []string{binaryInHeader},
			want:    badJSON(`unexpected additional input data for model 'add_sub'`)},
		{name: "binary size over the body", body: strings.Replace(binaryIn, "64", "68", 1),
			headers: []string{binaryInHeader},
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: `{"error":"unexpected size for input 'INPUT1', expecting 4 additional bytes for model ` +
					`'add_sub'"}`}},
		{name: "extra bytes behind the last input", body: binaryIn + "xxxx", headers: []string{binaryInHeader},
			want: badJSON(`unexpected additional input data for model 'add_sub'`)},
		{name: "body shorter than the sizes", body: binaryIn[:len(binaryIn)-64], headers: []string{binaryInHeader},
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: `{"error":"unexpected size for input 'INPUT1', expecting 64 additional bytes for model ` +
					`'add_sub'"}`}},
		{name: "binary size negative", body: strings.Replace(binaryIn, "64", "-4", 1),
			headers: []string{binaryInHeader},
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: `{"error":"Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer ` +
					`as unsigned-integer"}`}},
		{name: "header length negative", body: addSubJSON, headers: []string{"Inference-Header-Content-Length: -5"},
			want: answer{status: "400 Bad Request", kind: typeText,
				body: `{"error":"inference header size should be in range (0, ` + strconv.Itoa(len(addSubJSON)) +
					`), got: -5"}`}},
		{name: "header length over the body", body: addSubJSON,
			headers: []string{"Inference-Header-Content-Length: 100000"},
			want: answer{status: "400 Bad Request", kind: typeText,
				body: `{"error":"inference header size should be in range (0, ` + strconv.Itoa(len(addSubJSON)) +
					`), got: 100000"}`}},
		{name: "header length not a number", body: addSubJSON,
			headers: []string{"Inference-Header-Content-Length: abc"},
			want:    badText(`Inference-Header-Content-Length must be a number of bytes, got: abc`)},
		{name: "header length too short", body: addSubJSON, headers: []string{"Inference-Header-Content-Length: 10"},
			want: badJSON(`failed to parse the request JSON buffer: Invalid value. at 10`)},
		{name: "header length 0, two inputs", body: addSubJSON, headers: []string{"Inference-Header-Content-Length: 0"},
			want: badJSON(`[request id: <id_unknown>] ` +
				`Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'add_sub' model ` +
				`configuration`)},
		{name: "binary body without the header", body: binaryIn,
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: `{"error":"unexpected size for input 'INPUT0', expecting 64 additional bytes for model ` +
					`'add_sub'"}`}},
		{name: "B033 raw binary request", path: "/v2/models/identity_ort/infer", body: int32s(),
			headers: []string{"Inference-Header-Content-Length: 0"},
			want: answer{status: "200 OK", kind: typeBinary, jsonLength: "150",
				body: `{"model_name":"identity_ort","model_version":"1",` +
					`"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[1,16],` +
					`"parameters":{"binary_data_size":64}}]}` + int32s()}},
		{name: "shared memory input", body: strings.Replace(binaryIn[:len(binaryIn)-128], `"binary_data_size":64`,
			`"shared_memory_region":"none","shared_memory_byte_size":64`, 1),
			want: answer{status: "404 Not Found", kind: typeJSON,
				body: `{"error":"Unable to find shared memory region: 'none'"}`}},
		{name: "shared memory output", body: strings.TrimSuffix(addSubJSON, "}") +
			`,"outputs":[{"name":"OUTPUT0","parameters":{"shared_memory_region":"none",` +
			`"shared_memory_byte_size":64}}]}`,
			want: answer{status: "404 Not Found", kind: typeJSON,
				body: `{"error":"Unable to find shared memory region: 'none'"}`}},
		{name: "B037 gzip", body: compressed(t, "gzip", addSubJSON), headers: []string{"Content-Encoding: gzip"},
			want: okJSON(addSubReply)},
		{name: "B037 deflate", body: compressed(t, "deflate", addSubJSON),
			headers: []string{"Content-Encoding: deflate"},
			want:    okJSON(addSubReply)},
		{name: "gzip with a binary tail", body: compressed(t, "gzip", binaryIn),
			headers: []string{"Content-Encoding: gzip", binaryInHeader},
			want:    okJSON(addSubReply)},
		{name: "unknown content encoding", body: addSubJSON, headers: []string{"Content-Encoding: br"},
			want: answer{status: "501 Not Implemented", kind: typeText,
				body: `{"error":"Unsupported compression type"}`}},
		{name: "decoupled", path: "/v2/models/repeat/infer", body: addSubJSON,
			want: answer{status: "501 Not Implemented", kind: typeText,
				body: `{"error":"HTTP end point doesn't support models with decoupled transaction policy"}`}},
		{name: "the model fails", path: "/v2/models/broken/infer", body: addSubJSON,
			want: answer{status: "500 Internal Server Error",
				kind: typeText, body: `{"error":"my error"}`}},
	}
	outer, conn := t, dial(t, s.addr)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.path
			if path == "" {
				path = addSubPath
			}
			got := send(t, conn, request("POST", path, tt.body, tt.headers...))
			checkAnswer(t, got, tt.want)
			if got.close {
				conn = dial(outer, s.addr)
			}
		})
	}
}

func checkAnswer(t *testing.T, got, want answer) {
	t.Helper()
	if got.status != want.status || got.kind != want.kind || got.jsonLength != want.jsonLength ||
		got.body != want.body {
		t.Errorf("got  %s | %s | %q | %q\nwant %s | %s | %q | %q", got.status, got.kind, got.jsonLength, got.body,
			want.status, want.kind, want.jsonLength, want.body)
	}
}

func compressed(t testing.TB, kind, text string) string {
	t.Helper()
	var (
		b bytes.Buffer
		w io.WriteCloser
	)
	if kind == "gzip" {
		w = gzip.NewWriter(&b)
	} else {
		w = zlib.NewWriter(&b)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
