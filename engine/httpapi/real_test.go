package httpapi

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/backend/builtin"
)

// realEngine returns an engine in explicit mode with a repository of builtin models.
func realEngine(t *testing.T) *engine.Engine {
	t.Helper()
	root := t.TempDir()
	for name, config := range map[string]string{
		"add_sub": `backend: "add_sub" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "INPUT1" data_type: TYPE_INT32 dims: 16 } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 } ]`,
		"identity": `backend: "identity" max_batch_size: 8 dynamic_batching {}
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 label_filename: "labels.txt" }`,
		"id_bytes": `backend: "identity" input { name: "INPUT0" data_type: TYPE_STRING dims: -1 } output { name: ` +
			`"OUTPUT0" data_type: TYPE_STRING dims: -1 }`,
		"id_fp16": `backend: "identity" input { name: "INPUT0" data_type: TYPE_FP16 dims: -1 } output { name: ` +
			`"OUTPUT0" data_type: TYPE_FP16 dims: -1 }`,
		"repeat": `backend: "repeat" model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: -1 }, { name: "DELAY" data_type: TYPE_UINT32 dims: -1 },
{ name: "WAIT" data_type: TYPE_UINT32 dims: 1 } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: 1 }, { name: "IDX" data_type: TYPE_UINT32 dims: 1 } ]`,
		"bad": `backend: "nosuch" input { name: "a" data_type: TYPE_FP32 dims: 1 } output { name: "b" data_type: ` +
			`TYPE_FP32 dims: 1 }`,
	} {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var labels strings.Builder
	for i := range 16 {
		labels.WriteString("label" + strconv.Itoa(i) + "\n")
	}
	if err := os.WriteFile(filepath.Join(root, "identity", "labels.txt"), []byte(labels.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: builtin.All()},
		Mode:         engine.ModeExplicit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// The real engine gives the replies recorded from Triton, in this order.
func TestRealEngine(t *testing.T) {
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine = e })
	conn := dial(t, s.addr)
	call := func(method, path, body string, headers ...string) answer {
		return send(t, conn, request(method, path, body, headers...))
	}
	for _, name := range []string{"add_sub", "identity", "id_bytes", "id_fp16", "repeat"} {
		if got := call("POST", "/v2/repository/models/"+name+"/load", ""); got.status != "200 OK" || got.body != "" {
			t.Fatalf("load %s answers %s %s", name, got.status, got.body)
		}
	}
	const prefix = `{"error":"[request id: <id_unknown>] `
	fp16, fp16Header := withBinary(`{"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "FP16", "parameters": `+
		`{"binary_data_size": 4}}], `+
		`"parameters": {"binary_data_output": true}}`, "\x00<\x00@")
	noisy, noisyHeader := withBinary(`{"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "BYTES", `+
		`"parameters": {"binary_data_size": 13}}]}`,
		"\x03\x00\x00\x00abc\x02\x00\x00\x00\xff\x00")
	const identityJSON = `{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32","data":[` + zeroTo15 + `]}]`
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		want                     answer
	}{
		{name: "add_sub", path: addSubPath, body: addSubJSON, want: okJSON(addSubReply)},
		{name: "batch of 2", path: "/v2/models/identity/infer", body: strings.ReplaceAll(strings.Replace(identityJSON+
			"}", "[1,16]", "[2,16]", 1), zeroTo15, zeroTo15+","+zeroTo15),
			want: okJSON(`{"model_name":"identity","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"FP32","shape":[2,16],` +
				`"data":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0,0.0,1.0,2.0,3.0,4.0,` +
				`5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0]}]}`)},
		{name: "raw", path: "/v2/models/identity/infer", body: int32s(),
			headers: []string{"Inference-Header-Content-Length: 0"},
			want: answer{status: "200 OK", kind: typeBinary, jsonLength: "146",
				body: `{"model_name":"identity","model_version":"1",` +
					`"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[1,16],` +
					`"parameters":{"binary_data_size":64}}]}` + int32s()}},
		{name: "classes", path: "/v2/models/identity/infer", body: identityJSON +
			`,"outputs":[{"name":"OUTPUT0","parameters":{"classification":2}}]}`,
			want: okJSON(`{"model_name":"identity","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"BYTES",` +
				`"shape":[1,2],"data":["15.000000:15:label15","14.000000:14:label14"]}]}`)},
		{name: "BYTES that are not UTF-8", path: "/v2/models/id_bytes/infer", body: noisy,
			headers: []string{noisyHeader},
			want: okJSON(`{"model_name":"id_bytes","model_version":"1","outputs":[{"name":"OUTPUT0",` +
				`"datatype":"BYTES",` +
				`"shape":[2],"data":["abc","` + "\xff" + `\u0000"]}]}`)},
		{name: "FP16 binary", path: "/v2/models/id_fp16/infer", body: fp16, headers: []string{fp16Header},
			want: answer{status: "200 OK", kind: typeBinary, jsonLength: "141",
				body: `{"model_name":"id_fp16","model_version":"1","outputs":[{"name":"OUTPUT0",` +
					`"datatype":"FP16","shape":[2],"parameters":{"binary_data_size":4}}]}` + "\x00<\x00@"}},
		{name: "FP16 as JSON", path: "/v2/models/id_fp16/infer", body: strings.Replace(fp16,
			`"binary_data_output": true`, `"binary_data_output":false`, 1),
			headers: []string{fp16Header}, want: answer{status: "400 Bad Request", kind: typeText,
				body: `{"error":"sending FP16 data via JSON is not supported. Please use the binary data format ` +
					`for output"}`}},
		{name: "unknown version", path: "/v2/models/add_sub/versions/9/infer", body: addSubJSON,
			want: answer{status: "404 Not Found", kind: typeText,
				body: `{"error":"Request for unknown model: 'add_sub' version 9 is not found"}`}},
		{name: "no inputs", path: addSubPath, body: `{"inputs": []}`, want: answer{status: "400 Bad Request",
			kind: typeJSON,
			body: prefix + `expected 2 inputs but got 0 inputs for model 'add_sub'. Got input(s) [], but missing ` +
				`required input(s) ['INPUT0','INPUT1']. ` +
				`Please provide all required input(s)."}`}},
		{name: "renamed input", path: addSubPath, body: strings.Replace(addSubJSON, "INPUT0", "NOPE", 1),
			want: badJSON(`unexpected inference input 'NOPE' for model 'add_sub'`)},
		{name: "unknown output", path: addSubPath, body: strings.TrimSuffix(addSubJSON, "}") +
			`,"outputs":[{"name":"NOPE"}]}`,
			want: badJSON(`unexpected inference output 'NOPE' for model 'add_sub'`)},
		{name: "duplicate input", path: addSubPath, body: strings.Replace(addSubJSON, "INPUT1", "INPUT0", 1),
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: prefix + `input 'INPUT0' already exists in request"}`}},
		{name: "wrong dtype", path: addSubPath, body: strings.Replace(addSubJSON, "INT32", "FP32", 1),
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: prefix + `inference input 'INPUT0' data-type is 'FP32', but model 'add_sub' expects 'INT32'"}`}},
		{name: "batch too large", path: "/v2/models/identity/infer",
			body: `{"inputs":[{"name":"INPUT0","shape":[9,16],"datatype":"FP32","data":[` +
				strings.TrimSuffix(strings.Repeat("1,", 9*16), ",") + `]}]}`,
			want: answer{status: "400 Bad Request", kind: typeJSON,
				body: prefix + `inference request batch-size must be <= 8 for 'identity'"}`}},
		{name: "decoupled", path: "/v2/models/repeat/infer", body: addSubJSON,
			want: answer{status: "501 Not Implemented", kind: typeText,
				body: `{"error":"HTTP end point doesn't support models with decoupled transaction policy"}`}},
		{name: "unload of what is not there", path: "/v2/repository/models/nope/unload",
			want: answer{status: "200 OK", kind: typeJSON}},
		{name: "ready", method: "GET", path: "/v2/health/ready", want: answer{status: "200 OK", kind: typeText}},
		{name: "unload", path: "/v2/repository/models/repeat/unload", want: answer{status: "200 OK", kind: typeJSON}},
		{name: "unloaded", method: "GET", path: "/v2/models/repeat", want: answer{status: "404 Not Found",
			kind: typeJSON,
			body: `{"error":"Request for unknown model: 'repeat' has no available versions"}`}},
		{name: "infer on the unloaded", path: "/v2/models/repeat/infer", body: addSubJSON,
			want: answer{status: "404 Not Found", kind: typeText,
				body: `{"error":"Request for unknown model: 'repeat' has no available versions"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "POST"
			}
			checkAnswer(t, call(method, tt.path, tt.body, tt.headers...), tt.want)
		})
	}
	if got := call("POST", "/v2/repository/models/bad/load", ""); got.status != "400 Bad Request" ||
		!strings.Contains(got.body, "load failed for model 'bad'") {
		t.Errorf("load of a broken model answers %s %s", got.status, got.body)
	}
	if got := call("POST", "/v2/repository/models/nope/load", ""); got.status != "500 Internal Server Error" ||
		!strings.Contains(got.body, "failed to load 'nope', failed to poll from model repository") {
		t.Errorf("load of an unknown model answers %s %s", got.status, got.body)
	}
	if got := call("GET", "/v2/models/add_sub/stats", ""); !strings.Contains(got.body, `"success":{"count":1,`) {
		t.Errorf("statistics after one success: %s", got.body)
	}
	if got := call("GET", "/v2/models/add_sub/config", ""); !strings.HasPrefix(got.body,
		`{"name":"add_sub","platform":"","backend":"add_sub",`) {
		t.Errorf("config: %s", got.body)
	}
}
