package httpapi

import (
	"strings"
	"testing"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/tensor"
)

func TestPredict_B089(t *testing.T) {
	s := serve(t, func(o *Options) { o.V1 = true })
	s.engine.models["id2"] = model("id2", tensor.FP32, 1, 8, []int64{2}, identity)
	s.engine.models["two"] = model("two", tensor.Int32, 2, 8, []int64{1}, identity)
	s.engine.models["text"] = model("text", tensor.Bytes, 1, 8, []int64{-1}, identity)
	s.engine.models["half"] = model("half", tensor.FP16, 1, 8, []int64{-1}, identity)
	s.engine.models["fixed"] = model("fixed", tensor.FP32, 1, 0, []int64{-1}, func(r *infer.Request, _ *fakeModel) {
		resp := r.NewResponse()
		resp.AddOutput("OUTPUT0", tensor.Uint8, []int64{}, []byte{7}, nil)
		resp.Final = true
		_ = r.Respond(resp)
	})
	s.engine.index = []*inferencepb.RepositoryIndexResponse_ModelIndex{
		{Name: "id2", Version: "1", State: "READY"}, {Name: "id2", Version: "2", State: "UNAVAILABLE",
			Reason: "unloaded"},
		{Name: "bad", Version: "1", State: "UNAVAILABLE", Reason: "no \"such\" backend"}, {Name: "never"},
	}
	conn := dial(t, s.addr)
	for _, tt := range []struct{ name, method, path, body, status, want string }{
		{name: "rows", path: "id2:predict", body: `{"instances":[[1,2],[3,4.5]]}`,
			want: `{"predictions":[[1.0,2.0],[3.0,4.5]]}`},
		{name: "rows by name", path: "id2/versions/1:predict",
			body: `{"signature_name":"serving_default","instances":[{"INPUT0":[1,2]}]}`,
			want: `{"predictions":[[1.0,2.0]]}`},
		{name: "columns", path: "id2:predict", body: `{"inputs":[[1,2],[3,4]]}`,
			want: `{"outputs":[[1.0,2.0],[3.0,4.0]]}`},
		{name: "columns by name", path: "two:predict", body: `{"inputs":{"INPUT0":[[1],[2]],"INPUT1":[[3],[4]]}}`,
			want: `{"outputs":{"OUTPUT0":[[1],[2]],"OUTPUT1":[[3],[4]]}}`},
		{name: "two inputs", path: "two:predict",
			body: `{"instances":[{"INPUT0":1,"INPUT1":3},{"INPUT1":4,"INPUT0":2}]}`,
			want: `{"predictions":[{"OUTPUT0":1,"OUTPUT1":3},{"OUTPUT0":2,"OUTPUT1":4}]}`},
		{name: "strings", path: "text:predict", body: `{"instances":[["a",{"b64":"aMOp"}],["","c"]]}`,
			want: `{"predictions":[["a","hé"],["","c"]]}`},
		{name: "one string each", path: "text:predict", body: `{"instances":[{"b64":"YQ=="},"b"]}`,
			want: `{"predictions":["a","b"]}`},
		{name: "nested", path: "id2:predict", body: `{"inputs":[[[1],[2]],[[3],[4]],[[5],[6]]]}`,
			want: `{"outputs":[[[1.0],[2.0]],[[3.0],[4.0]],[[5.0],[6.0]]]}`},
		{name: "no rows", path: "id2:predict", body: `{"instances":[]}`, want: `{"predictions":[]}`},
		{name: "a scalar output", path: "fixed:predict", body: `{"inputs":[1]}`, want: `{"outputs":7}`},
		{name: "no rows in the output", path: "fixed:predict", body: `{"instances":[1,2]}`, status: "400 Bad Request",
			want: `{"error":"output 'OUTPUT0' has the shape [], which are not 2 predictions; send \"inputs\" in ` +
				`place of \"instances\""}`},
		{name: "not rectangular", path: "id2:predict", body: `{"instances":[[1,2],[3]]}`, status: "400 Bad Request",
			want: `{"error":"input 'INPUT0': the instances have different shapes, [2] and [1]"}`},
		{name: "ragged", path: "id2:predict", body: `{"inputs":[[1,2],[3]]}`, status: "400 Bad Request",
			want: `{"error":"input 'INPUT0': the lists are not rectangular"}`},
		{name: "an input missing in a row", path: "two:predict",
			body: `{"instances":[{"INPUT0":1,"INPUT1":3},{"INPUT0":2}]}`, status: "400 Bad Request",
			want: `{"error":"input 'INPUT1' is in 1 of 2 instances"}`},
		{name: "an input twice", path: "id2:predict", body: `{"inputs":{"INPUT0":[[1,2]],"INPUT0":[[1,2]]}}`,
			status: "400 Bad Request", want: `{"error":"input 'INPUT0' is given twice"}`},
		{name: "bytes twice", path: "text:predict", body: `{"inputs":[{"b64":"YQ==","b64":"YQ=="}]}`,
			status: "400 Bad Request", want: `{"error":"Unable to parse 'data': ` + tensorjson.ErrNotString.Error() +
				`"}`},
		{name: "bytes without bytes", path: "text:predict", body: `{"inputs":[{}]}`, status: "400 Bad Request",
			want: `{"error":"Unable to parse 'data': ` + tensorjson.ErrNotString.Error() + `"}`},
		{name: "unknown input", path: "id2:predict", body: `{"instances":[{"x":1}]}`, status: "400 Bad Request",
			want: `{"error":"the model has no input 'x'"}`},
		{name: "no names for two inputs", path: "two:predict", body: `{"instances":[1]}`, status: "400 Bad Request",
			want: `{"error":"the model has 2 inputs: an object with their names is expected"}`},
		{name: "neither form", path: "id2:predict", body: `{}`, status: "400 Bad Request",
			want: `{"error":"a predict request must have one of \"instances\" and \"inputs\""}`},
		{name: "both forms", path: "id2:predict", body: `{"instances":[],"inputs":[]}`, status: "400 Bad Request",
			want: `{"error":"a predict request must have one of \"instances\" and \"inputs\""}`},
		{name: "another signature", path: "id2:predict", body: `{"instances":[],"signature_name":"x"}`,
			status: "400 Bad Request", want: `{"error":"Serving signature name: \"x\" not found in signature def"}`},
		{name: "no number", path: "id2:predict", body: `{"instances":[["a","b"]]}`, status: "400 Bad Request",
			want: `{"error":"Unable to parse 'data': ` + tensorjson.ErrNotNumber.Error() + `"}`},
		{name: "half precision", path: "half:predict", body: `{"instances":[[1]]}`, status: "400 Bad Request",
			want: `{"error":"receiving FP16 data via JSON is not supported. Please use the binary data format for ` +
				`input INPUT0"}`},
		{name: "malformed", path: "id2:predict", body: `{"instances":[[1`, status: "400 Bad Request",
			want: `{"error":"failed to parse the request JSON buffer: Missing a comma or ']' after an array ` +
				`element. at 16"}`},
		{name: "no object", path: "id2:predict", body: `[]`, status: "400 Bad Request", want: `{"error":"` +
			tensorjson.ErrNotObject.Error() + `"}`},
		{name: "unknown model", path: "nope:predict", body: `{}`, status: "404 Not Found",
			want: `{"error":"Request for unknown model: 'nope' is not found"}`},
		{name: "decoupled", path: "repeat:predict", body: `{}`, status: "501 Not Implemented",
			want: `{"error":"HTTP end point doesn't support models with decoupled transaction policy"}`},
		{name: "state", method: "GET", path: "id2",
			want: `{"name":"id2","ready":true,"model_version_status":[{"version":"1","state":"AVAILABLE",` +
				`"status":{"error_code":"OK","error_message":""}},` +
				`{"version":"2","state":"END","status":{"error_code":"OK","error_message":"unloaded"}}]}`},
		{name: "state of a version", method: "GET", path: "bad/versions/1",
			want: `{"name":"bad","ready":false,"model_version_status":[{"version":"1","state":"END",` +
				`"status":{"error_code":"UNKNOWN","error_message":"no \"such\" backend"}}]}`},
		{name: "state of another version", method: "GET", path: "id2/versions/3", status: "404 Not Found",
			want: `{"error":"Request for unknown model: 'id2' is not found"}`},
		{name: "predict by GET", method: "GET", path: "id2:predict", status: "405 Not Allowed",
			want: `{"error":"Method Not Allowed"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, code := tt.method, tt.status
			if method == "" {
				method = "POST"
			}
			if code == "" {
				code = "200 OK"
			}
			checkAnswer(t, send(t, conn, request(method, "/v1/models/"+tt.path, tt.body)),
				answer{status: code, kind: typeJSON, body: tt.want})
		})
	}
	checkAnswer(t, send(t, conn, request("GET", "/v1/models", "")), okJSON(`{"models":["id2"]}`))
	for _, path := range []string{"/v1", "/v1/modelsx", "/v1/models/", "/v1/models/id2/versions/x:predict",
		"/v1/models/id2:classify/x"} {
		if got := send(t, conn, request("POST", path, "")); !strings.HasPrefix(got.status, "404") {
			t.Errorf("%s answers %s", path, got.status)
		}
	}
	checkAnswer(t, send(t, dial(t, serve(t).addr), request("GET", "/v1/models", "")),
		answer{status: "404 Not Found", kind: typeText, body: `{"error":"Not Found"}`})
}
