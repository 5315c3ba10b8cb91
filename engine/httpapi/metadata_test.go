package httpapi

import (
	"errors"
	"strings"
	"testing"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
)

const notFoundBody, notAllowedBody = `{"error":"Not Found"}`, `{"error":"Method Not Allowed"}`

// The replies outside of inference are those recorded from Triton 2.51.
func TestAdministrationReplies(t *testing.T) {
	s := serve(t)
	s.engine.index = []*inferencepb.RepositoryIndexResponse_ModelIndex{
		{Name: "add_sub", Version: "1", State: "READY"},
		{Name: "bad_backend", Version: "1", State: "UNAVAILABLE", Reason: "Invalid argument: no \"such\" backend"},
		{Name: "bad_empty"},
	}
	ok := func(kind, body string) answer { return answer{status: "200 OK", kind: kind, body: body} }
	notFound := answer{status: "404 Not Found", kind: typeText, body: notFoundBody}
	notAllowed := func(kind string) answer {
		return answer{status: "405 Not Allowed", kind: kind,
			body: notAllowedBody}
	}
	const metadata = `{"name":"add_sub","versions":["1"],"platform":"python","inputs":[{"name":"INPUT0",` +
		`"datatype":"INT32","shape":[-1,16]},` +
		`{"name":"INPUT1","datatype":"INT32","shape":[-1,16]}],"outputs":[{"name":"OUTPUT0","datatype":"INT32",` +
		`"shape":[-1,16]},` +
		`{"name":"OUTPUT1","datatype":"INT32","shape":[-1,16]}]}`
	const zero = `{"count":0,"ns":0}`
	const stats = `{"model_stats":[{"name":"add_sub","version":"1","last_inference":0,"inference_count":0,` +
		`"execution_count":0,` +
		`"inference_stats":{"success":` + zero + `,"fail":` + zero + `,"queue":` + zero + `,"compute_input":` + zero +
		`,"compute_infer":` + zero +
		`,"compute_output":` + zero + `,"cache_hit":` + zero + `,"cache_miss":` + zero +
		`},"response_stats":{},"batch_stats":[],"memory_usage":[]}]}`
	const unknownVersion = `Request for unknown model: 'add_sub' version 9 is not found`
	const unknownModel = `Request for unknown model: 'nope' is not found`
	const index = `[{"name":"add_sub","version":"1","state":"READY"},{"name":"bad_backend","version":"1",` +
		`"state":"UNAVAILABLE",` +
		`"reason":"Invalid argument: no \"such\" backend"},{"name":"bad_empty"}]`
	modelError := func(text string) answer {
		return answer{status: "404 Not Found", kind: typeJSON, body: `{"error":"` + text + `"}`}
	}
	conn := dial(t, s.addr)
	for _, tt := range []struct {
		row, request, body string
		want               answer
	}{
		{row: "B005 B006", request: "GET /v2", want: ok(typeJSON,
			`{"name":"triton","version":"2.51.0","extensions":["classification","sequence"]}`)},
		{request: "GET /v2?x=/", want: ok(typeJSON,
			`{"name":"triton","version":"2.51.0","extensions":["classification","sequence"]}`)},
		{request: "GET /v2/", want: notFound},
		{request: "GET /", want: notFound},
		{request: "GET //v2", want: notFound},
		{request: "GET /v2/./health/live", want: notFound},
		{row: "B001", request: "GET /v2/health/live", want: ok(typeText, "")},
		{row: "B002", request: "GET /v2/health/ready", want: ok(typeText, "")},
		{request: "HEAD /v2/health/ready", want: answer{status: "405 Not Allowed", kind: typeText}},
		{request: "POST /v2/health/ready", want: notAllowed(typeText)},
		{request: "GET /v2/health", want: notFound},
		{row: "B007", request: "GET /v2/models/add_sub", want: ok(typeJSON, metadata)},
		{request: "GET /v2/models/add_sub/", want: notFound},
		{request: "GET /v2/models/add_sub/versions/1", want: ok(typeJSON, metadata)},
		{request: "GET /v2/models/add_sub/versions/9", want: modelError(unknownVersion)},
		{request: "GET /v2/models/add_sub/versions/abc", want: notFound},
		{request: "GET /v2/models/add_sub/versions/99999999999999999999",
			want: badJSON("failed to get model version from specified version string " +
				"'99999999999999999999' (details: stol), version should be an integral value > 0")},
		{request: "GET /v2/models/%61dd_sub", want: ok(typeJSON, metadata)},
		{request: "GET /v2/models/a%2", want: badJSON("the path has a malformed %-escape")},
		{request: "GET /v2/models/nope", want: modelError(unknownModel)},
		{request: "GET /v2/models/", want: notFound},
		{request: "POST /v2/models/add_sub", want: notAllowed(typeJSON)},
		{row: "B020", request: "DELETE /v2/models/add_sub", want: notAllowed(typeJSON)},
		{request: "PUT /v2/models/add_sub/infer", want: notAllowed(typeText)},
		{request: "GET /v2/models/add_sub/infer", want: notAllowed(typeText)},
		{request: "OPTIONS /v2", want: notAllowed(typeJSON)},
		{request: "GET /v2/models/add_sub/nosuch", want: notFound},
		{request: "GET /v2/nosuch", want: notFound},
		{row: "B020", request: "GET /nosuch", want: notFound},
		{row: "B003", request: "GET /v2/models/add_sub/ready", want: ok(typeText, "")},
		{request: "GET /v2/models/add_sub/versions/1/ready", want: ok(typeText, "")},
		{request: "GET /v2/models/add_sub/versions/9/ready", want: badText(`Model version not ready`)},
		{request: "GET /v2/models/nope/ready", want: badText(`Model version not ready`)},
		{request: "GET /v2/models/add_sub/versions/9/config", want: modelError(unknownVersion)},
		{request: "GET /v2/models/nope/config", want: modelError(unknownModel)},
		{row: "B009", request: "GET /v2/models/add_sub/stats", want: ok(typeJSON, stats)},
		{request: "GET /v2/models/stats", want: ok(typeJSON, stats)},
		{request: "GET /v2/models/nope/stats", want: badJSON("requested model 'nope' is not available")},
		{request: "GET /v2/repository/index", want: notAllowed(typeJSON)},
		{row: "B013", request: "POST /v2/repository/index", want: ok(typeJSON, index)},
		{request: "POST /v2/repository/index", body: "{}", want: ok(typeJSON, index)},
		{request: "POST /v2/repository/index", body: `{"ready":true}`,
			want: ok(typeJSON, `[{"name":"add_sub","version":"1","state":"READY"}]`)},
		{request: "POST /v2/repository/index", body: `{"ready":1}`, want: badJSON(tensorjson.ErrNotBoolean.Error())},
		{request: "POST /v2/repository/index", body: `{bad`,
			want: badJSON("failed to parse the request JSON buffer: Missing a name for object member. at 1")},
		{request: "POST /v2/repository/local/index", want: ok(typeJSON, index)},
		{request: "POST /v2/repository/local/models/add_sub/load", want: answer{status: "501 Not Implemented",
			kind: typeJSON,
			body: `{"error":"'repository_name' specification is not supported"}`}},
		{request: "GET /v2/repository/models/add_sub/load", want: notAllowed(typeJSON)},
		{request: "POST /v2/repository/models/add_sub/nosuch", want: notFound},
		{row: "B014", request: "POST /v2/repository/models/add_sub/load", want: ok(typeJSON, "")},
		{request: "POST /v2/repository/models/multi/load", body: `{"parameters":{"config":5}}`,
			want: badJSON(tensorjson.ErrNotString.Error())},
		{request: "POST /v2/repository/models/multi/load", body: `{"parameters":{"nosuch":"x"}}`,
			want: badJSON("unexpected error on creating Triton parameter")},
		{request: "POST /v2/repository/models/multi/load", body: `{bad`,
			want: badJSON("failed to parse the request JSON buffer: Missing a name for object member. at 1")},
		{request: "POST /v2/repository/models/%2e%2e/load",
			want: badJSON("model name '..' is not the name of a folder: it must be UTF-8 without slashes and " +
				"control characters")},
		{request: "POST /v2/repository/models/..%2fx/unload",
			want: badJSON("model name '../x' is not the name of a folder: it must be UTF-8 without slashes and " +
				"control characters")},
		{request: "POST /v2/repository/models/a%00b/load",
			want: badJSON(`model name 'a\\x00b' is not the name of a folder: it must be UTF-8 without slashes and ` +
				`control characters`)},
		{request: "POST /v2/repository/models/add_sub/unload", body: `{"parameters":{"unload_dependents":true}}`,
			want: ok(typeJSON, "")},
		{request: "POST /v2/repository/models/add_sub/unload", body: `{"parameters":{"unload_dependents":1}}`,
			want: badJSON(tensorjson.ErrNotBoolean.Error())},
		{request: "GET /v2/systemsharedmemory/status", want: ok(typeJSON, "[]")},
		{request: "GET /v2/cudasharedmemory/status", want: ok(typeJSON, "[]")},
		{request: "GET /v2/systemsharedmemory/region/none/status",
			want: modelError("Unable to find system shared memory region: 'none'")},
		{request: "POST /v2/systemsharedmemory/unregister", want: ok(typeJSON, "")},
		{request: "POST /v2/cudasharedmemory/region/r1/unregister", want: ok(typeJSON, "")},
		{request: "POST /v2/systemsharedmemory/region/r1/register", body: `{}`,
			want: badJSON("Shared memory register request has no 'key' field")},
		{request: "POST /v2/cudasharedmemory/region/r1/register", body: `{}`,
			want: badJSON("failed to register CUDA shared memory region: 'r1', GPUs not supported")},
	} {
		t.Run(strings.TrimSpace(tt.row+" "+tt.request+" "+tt.body), func(t *testing.T) {
			method, path, _ := strings.Cut(tt.request, " ")
			checkAnswer(t, send(t, conn, request(method, path, tt.body)), tt.want)
		})
	}
	s.engine.notReady.Store(true)
	checkAnswer(t, send(t, conn, request("GET", "/v2/health/ready", "")),
		answer{status: "400 Bad Request", kind: typeText})
}

func TestConfig_B008(t *testing.T) {
	s := serve(t)
	got := send(t, dial(t, s.addr), request("GET", "/v2/models/multi/config", ""))
	if got.status != "200 OK" || got.kind != typeJSON || !strings.HasPrefix(got.body,
		`{"name":"multi","platform":"","backend":""`) {
		t.Errorf("config answers %s | %s | %s", got.status, got.kind, got.body)
	}
}

func TestLoadParameters_B014(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	send(t, conn, request("POST", "/v2/repository/models/m/load",
		`{"parameters":{"config":"{\"max_batch_size\":2}","file:1/model.onnx":"AAEC"}}`))
	send(t, conn, request("POST", "/v2/repository/models/m/unload", `{"parameters":{"unload_dependents":true}}`))
	const bad = "parameter 'version' must be the number of a version"
	for body, want := range map[string]string{`0`: bad, `-1`: bad, `1.5`: bad, `"x"`: bad,
		`3,"unload_dependents":true`: "parameters 'version' and 'unload_dependents' cannot be given together"} {
		if got := send(t, conn, request("POST", "/v2/repository/models/m/unload", `{"parameters":{"version":`+body+
			`}}`)); got.status != "400 Bad Request" || !strings.Contains(got.body, want) {
			t.Errorf("unload of version %s answers %s %s", body, got.status, got.body)
		}
	}
	for _, body := range []string{`{"parameters":{"version":3}}`, `{"parameters":{"version":"3"}}`} {
		send(t, conn, request("POST", "/v2/repository/models/m/unload", body))
		s.engine.mu.Lock()
		if s.engine.unloadedVersion != 3 {
			t.Errorf("unload with %s unloads version %d", body, s.engine.unloadedVersion)
		}
		s.engine.unloadedVersion = 0
		s.engine.mu.Unlock()
	}
	send(t, conn, request("POST", "/v2/repository/models/m/load", `{"parameters":{"version":7}}`))
	s.engine.mu.Lock()
	if n := len(s.engine.loaded); s.engine.loaded[n-1].Version != 7 {
		t.Errorf("load of version 7 gets %+v", s.engine.loaded[n-1])
	}
	s.engine.loaded = s.engine.loaded[:1]
	s.engine.mu.Unlock()
	s.engine.mu.Lock()
	loaded, dependent := s.engine.loaded, s.engine.dependent
	s.engine.mu.Unlock()
	if len(loaded) != 1 || loaded[0].ConfigJSON != `{"max_batch_size":2}` ||
		string(loaded[0].Files["1/model.onnx"]) != "\x00\x01\x02" {
		t.Errorf("LoadModel got %+v", loaded)
	}
	if len(dependent) != 1 || !dependent[0] {
		t.Errorf("UnloadModel got %v", dependent)
	}
	got := send(t, conn, request("POST", "/v2/repository/models/m/load", `{"parameters":{"file:1/x":"%%%"}}`))
	if got.status != "400 Bad Request" || !strings.Contains(got.body, "parameter 'file:1/x' is not base64") {
		t.Errorf("bad base64 answers %s %s", got.status, got.body)
	}
}

// Each of Triton's error codes has its HTTP status.
func TestErrorCodes_B021(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status.New(status.Internal, "x"), "500 Internal Server Error"},
		{status.New(status.NotFound, "x"), "404 Not Found"},
		{status.New(status.InvalidArg, "x"), "400 Bad Request"},
		{status.New(status.Unavailable, "x"), "503 Service Unavailable"},
		{status.New(status.Unsupported, "x"), "501 Not Implemented"},
		{status.New(status.AlreadyExists, "x"), "400 Bad Request"},
		{status.New(status.Unknown, "x"), "400 Bad Request"},
		{status.New(status.Cancelled, "x"), "400 Bad Request"},
		{errors.New("x"), "500 Internal Server Error"},
	} {
		s.engine.admin = func(string, string) error { return tt.err }
		got := send(t, conn, request("POST", "/v2/repository/models/m/load", ""))
		checkAnswer(t, got, answer{status: tt.want, kind: typeJSON, body: `{"error":"x"}`})
	}
}
