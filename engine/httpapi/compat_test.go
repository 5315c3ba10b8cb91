package httpapi

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/httpapi/compat"
	"nereid/engine/status"
)

// fakeArchives are archives that load any folder.
type fakeArchives struct {
	list []compat.Archive
	fail error
}

func (a *fakeArchives) Load(_ context.Context, name, url string) error {
	if a.fail != nil {
		return a.fail
	}
	if slices.ContainsFunc(a.list, func(l compat.Archive) bool { return l.Name == name }) {
		return status.Errorf(status.AlreadyExists, "model '%s' is loaded already", name)
	}
	a.list = append(a.list, compat.Archive{Name: name, URL: url})
	return nil
}

func (a *fakeArchives) Unload(_ context.Context, name string) error {
	i := slices.IndexFunc(a.list, func(l compat.Archive) bool { return l.Name == name })
	if i < 0 {
		return status.New(status.NotFound, "not loaded")
	}
	a.list = slices.Delete(a.list, i, i+1)
	return nil
}

func (a *fakeArchives) Loaded() []compat.Archive { return a.list }

// cloudBinary returns a binary request and its reply with a content type.
func cloudBinary(kind string) (body, header string, want answer) {
	body, length := withBinary(`{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32",`+
		`"parameters":{"binary_data_size":64}}],"parameters":{"binary_data_output":true}}`, int32s())
	_, n, _ := strings.Cut(length, ": ")
	reply := `{"model_name":"identity_ort","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP32",` +
		`"shape":[1,16],"parameters":{"binary_data_size":64}}]}`
	return body, "Content-Type: " + kind + n, answer{status: "200 OK", kind: kind + strconv.Itoa(len(reply)),
		body: reply + int32s()}
}

func TestSageMaker_B083(t *testing.T) {
	a := &fakeArchives{}
	s := serve(t, func(o *Options) { o.SageMaker = &compat.SageMaker{Model: "identity_ort", Archives: a} })
	conn := dial(t, s.addr)
	empty := func(code string) answer { return answer{status: code, kind: typeText} }
	json := func(code, body string) answer { return answer{status: code, kind: typeJSON, body: body} }
	binary, contentType, binaryReply := cloudBinary(compat.SageMakerBinary)
	const load = `{"model_name":"add_sub","url":"/opt/ml/models/add_sub/model"}`
	for _, tt := range []struct {
		name, method, path, body, header string
		want                             answer
	}{
		{"ping", "GET", "/ping", "", "", empty("200 OK")},
		{"ping by POST", "POST", "/ping", "", "", answer{status: "405 Not Allowed", kind: typeText,
			body: `{"error":"Method Not Allowed"}`}},
		{"invocations", "POST", "/invocations", oneInput("[1,16]", "FP32", "["+zeroTo15+"]"), "", json("200 OK",
			`{"model_name":"identity_ort","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP32",`+
				`"shape":[1,16],"data":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0]}]}`)},
		{"binary both ways", "POST", "/invocations", binary, contentType, binaryReply},
		{"content type not at its start", "POST", "/invocations", binary, "Content-Type: x; " +
			compat.SageMakerBinary + "5", answer{status: "400 Bad Request", kind: typeText,
			body: `{"error":"expect MIME type for binary data starts with '` + compat.SageMakerBinary +
				`', got: x; ` + compat.SageMakerBinary[:61] + `"}`}},
		{"no length", "POST", "/invocations", binary, "Content-Type: " + compat.SageMakerBinary + "abc",
			badText(`Unable to parse inference header size, got: abc`)},
		{"length over the body", "POST", "/invocations", binary, "Content-Type: " + compat.SageMakerBinary + "9999",
			answer{status: "400 Bad Request", kind: typeText,
				body: `{"error":"inference header size should be in range (0, ` + strconv.Itoa(len(binary)) +
					`), got: 9999"}`}},
		{"the v2 header has no meaning", "POST", "/invocations", oneInput("[1]", "FP32", "[1]"),
			"Inference-Header-Content-Length: 0", json("200 OK",
				`{"model_name":"identity_ort","model_version":"1","outputs":[{"name":"OUTPUT0","datatype":"FP32",`+
					`"shape":[1],"data":[1.0]}]}`)},
		{"no v2 routes", "GET", "/v2", "", "", empty("400 Bad Request")},
		{"nothing loaded", "GET", "/models", "", "", json("200 OK", `{"models":[]}`)},
		{"invoke before the load", "POST", "/models/add_sub/invoke", addSubJSON, "", empty("404 Not Found")},
		{"load", "POST", "/models", load, "X-Amzn-SageMaker-Target-Model: add.tar.gz", json("200 OK", "")},
		{"load again", "POST", "/models", load, "", json("409 Conflict",
			`{"error":"model 'add_sub' is loaded already"}`)},
		{"load of no JSON", "POST", "/models", "{", "", json("400 Bad Request",
			`{"error":"failed to parse the request JSON buffer: Missing a name for object member. at 1"}`)},
		{"list", "GET", "/models/", "", "", json("200 OK",
			`{"models":[{"modelName":"add_sub","modelUrl":"/opt/ml/models/add_sub/model"}]}`)},
		{"get", "GET", "/models/add_sub", "", "",
			json("200 OK", `{"modelName":"add_sub","modelUrl":"/opt/ml/models/add_sub/model"}`)},
		{"get another", "GET", "/models/nope", "", "", empty("404 Not Found")},
		{"DV53 invoke", "POST", "/models/add_sub/invoke", addSubJSON, "X-Amzn-SageMaker-Target-Model: add.tar.gz",
			json("200 OK", addSubReply)},
		{"invoke with a fault", "POST", "/models/add_sub/invoke", "{}", "",
			json("400 Bad Request", `{"error":"Unable to parse 'inputs': attempt to access non-existing object `+
				`member 'inputs'"}`)},
		{"another method", "PUT", "/models/add_sub", "", "", empty("400 Bad Request")},
		{"unload", "DELETE", "/models/add_sub", "", "", json("200 OK", "")},
		{"unload again", "DELETE", "/models/add_sub", "", "", empty("404 Not Found")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkAnswer(t, send(t, conn, request(tt.method, tt.path, tt.body, optional(tt.header)...)), tt.want)
		})
	}
	a.fail = errors.New("CUDA out of memory: 3 GiB")
	checkAnswer(t, send(t, conn, request("POST", "/models", load)), json("507 Insufficient Storage",
		`{"error":"CUDA out of memory: 3 GiB"}`))
	s.engine.notReady.Store(true)
	checkAnswer(t, send(t, conn, request("GET", "/ping", "")), empty("400 Bad Request"))
}

func TestSageMakerKinds_B083(t *testing.T) {
	for kind, want := range map[string]string{
		"generate":        `{"OUTPUT0":"x","model_name":"id_bytes","model_version":"1"}`,
		"generate_stream": `data: {"OUTPUT0":"x","model_name":"id_bytes","model_version":"1"}` + "\n\n",
	} {
		s := serve(t, func(o *Options) {
			o.SageMaker = &compat.SageMaker{Model: "id_bytes", Kind: kind,
				PingLive: true}
		})
		s.engine.notReady.Store(true)
		if resp, body := post(t, s, "/invocations", `{"INPUT0":"x"}`); resp.StatusCode != 200 || body != want {
			t.Errorf("%s answers %d %q", kind, resp.StatusCode, body)
		}
		checkAnswer(t, send(t, dial(t, s.addr), request("GET", "/ping", "")), answer{status: "200 OK", kind: typeText})
		if got := send(t, dial(t, s.addr), request("GET", "/models", "")); got.status != "400 Bad Request" {
			t.Errorf("/models without archives answers %s %s", got.status, got.body)
		}
	}
}

func TestVertexAI_B084_G015(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.VertexAI = &compat.VertexAI{Predict: "/v1/endpoints/1:predict", Health: "/v1/health",
			Model: func() string { return "identity_ort" }}
		o.Metrics = func(b []byte) []byte { return append(b, "nv_x 1\n"...) }
	})
	conn := dial(t, s.addr)
	empty := func(code string) answer { return answer{status: code, kind: typeText} }
	binary, contentType, binaryReply := cloudBinary(compat.VertexAIBinary)
	_, length, _ := strings.Cut(binaryReply.kind, compat.VertexAIBinary)
	binaryReply.kind, binaryReply.jsonLength = typeBinary, length // in replies, a header has the length
	for _, tt := range []struct {
		name, method, path, to, body, header string
		want                                 answer
	}{
		{name: "health", method: "GET", path: "/v1/health", want: empty("200 OK")},
		{name: "prediction", body: binary, header: contentType, want: binaryReply},
		{name: "another path", method: "GET", path: "/v2", want: empty("400 Bad Request")},
		{name: "to infer", to: "v2/models/add_sub/infer", body: addSubJSON, want: okJSON(addSubReply)},
		{name: "to what is read by GET", to: "v2/models/add_sub/ready", want: empty("200 OK")},
		{name: "to the server", to: "v2", want: okJSON(`{"name":"triton","version":"2.51.0",` +
			`"extensions":["classification","sequence"]}`)},
		{name: "to the index", to: "v2/repository/index", want: okJSON("[]")},
		{name: "to the metrics", to: "metrics", want: answer{status: "200 OK", kind: typeText, body: "nv_x 1\n"}},
		{name: "to regions", to: "v2/systemsharedmemory/status", want: okJSON("[]")},
		{name: "to a change of regions", to: "v2/systemsharedmemory/region/r/register", body: "{}",
			want: empty("403 Forbidden")},
		{name: "to a load", to: "v2/repository/models/x/load", want: empty("403 Forbidden")},
		{name: "to nothing", to: "v2/nosuch", want: empty("400 Bad Request")},
		{name: "to generate", to: "v2/models/id_bytes/generate", body: `{}`, want: empty("400 Bad Request")},
		{name: "by GET", method: "GET", path: "/v1/endpoints/1:predict", to: "v2", want: empty("405 Not Allowed")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, path := tt.method, tt.path
			if path == "" {
				method, path = "POST", "/v1/endpoints/1:predict"
			}
			headers := optional(tt.header)
			if tt.to != "" {
				headers = append(headers, "X-Vertex-Ai-Triton-Redirect: "+tt.to)
			}
			checkAnswer(t, send(t, conn, request(method, path, tt.body, headers...)), tt.want)
		})
	}
}

// The target of a redirect needs the same access as without a redirect.
func TestVertexAIRedirectIsGuarded_B084(t *testing.T) {
	var asked []Group
	s := serve(t, func(o *Options) {
		o.VertexAI = &compat.VertexAI{Predict: "/p", Health: "/h", Model: func() string { return "add_sub" }}
		o.Authorize = func(a *Access) error {
			asked = append(asked, a.Group)
			return &Denied{Status: 401, Text: "no"}
		}
	})
	for _, to := range []string{"v2/repository/index", "v2/models/add_sub/infer"} {
		if got := send(t, dial(t, s.addr), request("POST", "/p", "", "X-Vertex-Ai-Triton-Redirect: "+
			to)); got.status != "401 Unauthorized" {
			t.Errorf("%s answers %s", to, got.status)
		}
	}
	if !slices.Equal(asked, []Group{ModelRepository, Inference}) {
		t.Errorf("asked for %v", asked)
	}
}
