package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

// decoupledModel is a fake model that answers from another goroutine.
func decoupledModel(name string, run func(r *infer.Request)) *fakeModel {
	m := model(name, tensor.Int32, 1, 0, []int64{-1}, nil)
	m.decoupled = true
	m.config.ModelTransactionPolicy = &inferencepb.ModelTransactionPolicy{Decoupled: true}
	m.run = func(r *infer.Request, _ *fakeModel) {
		r.Retain()
		go func() {
			defer r.Release()
			run(r)
		}()
	}
	return m
}

// say answers with one value in OUT. end sends the final response, which is empty.
func say(r *infer.Request, v uint32) error {
	resp := r.NewResponse()
	resp.AddOutput("OUT", tensor.Int32, []int64{1}, le.AppendUint32(nil, v), nil)
	return r.Respond(resp)
}

func end(r *infer.Request) {
	resp := r.NewResponse()
	resp.Final, resp.Empty = true, true
	_ = r.Respond(resp)
}

// post sends one request and reads the whole reply, chunked or not.
func post(t *testing.T, s *testServer, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	resp := open(t, s, path, body, headers...)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("body of %s: %v", path, err)
	}
	return resp, string(got)
}

func open(t *testing.T, s *testServer, path, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header[name] = []string{value}
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// The replies are recorded from Triton 2.51, except for malformed JSON and several responses, which deviate on purpose.
func TestGenerate(t *testing.T) {
	e := realEngine(t)
	for _, name := range []string{"add_sub", "identity", "id_bytes", "id_fp16", "repeat"} {
		if err := e.LoadModel(t.Context(), name, engine.LoadParameters{}); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, func(o *Options) { o.Engine = e })
	const (
		two  = `{"IN": [1, 2], "DELAY": [1, 1], "WAIT": 1}`
		zero = `{"IN": [], "DELAY": [], "WAIT": 1}`
		one  = `{"IN": 5, "DELAY": 0, "WAIT": 0}`
	)
	for _, tt := range []struct {
		name, path, body string
		status           int
		kind, want       string
	}{
		{"B011 lists", "add_sub/generate", `{"INPUT0":[` + zeroTo15 + `],"INPUT1":[` + zeroTo15 + `]}`, 200, typeJSON,
			`{"OUTPUT0":[0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30],"OUTPUT1":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],` +
				`"model_name":"add_sub","model_version":"1"}`},
		{"B011 a version", "id_bytes/versions/1/generate", `{"INPUT0":"hello"}`, 200, typeJSON,
			`{"OUTPUT0":"hello","model_name":"id_bytes","model_version":"1"}`},
		{"B054 id and parameters", "id_bytes/generate", `{"id": "7", "INPUT0": ["x", "y"], "parameters": {"p": 1}}`,
			200, typeJSON,
			`{"OUTPUT0":["x","y"],"id":"7","model_name":"id_bytes","model_version":"1"}`},
		{"B054 an input among the parameters", "id_bytes/generate",
			`{"parameters": {"INPUT0": "in \"there\"\n", "temperature": 0.5}}`, 200, typeJSON,
			`{"OUTPUT0":"in \"there\"\n","model_name":"id_bytes","model_version":"1"}`},
		{"B054 two rows", "identity/generate", `{"INPUT0":[` + zeroTo15 + `,` + zeroTo15 + `]}`, 200, typeJSON,
			`{"OUTPUT0":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0,0.0,1.0,2.0,3.0,4.0,` +
				`5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0],` +
				`"model_name":"identity","model_version":"1"}`},
		{"B054 DV32 nested lists", "identity/generate", `{"INPUT0":[[` + zeroTo15 + `]]}`, 200, typeJSON,
			`{"OUTPUT0":[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0,11.0,12.0,13.0,14.0,15.0],` +
				`"model_name":"identity","model_version":"1"}`},
		{"B012 one response", "id_bytes/generate_stream", `{"INPUT0":"hello"}`, 200, typeEvents,
			`data: {"OUTPUT0":"hello","model_name":"id_bytes","model_version":"1"}` + "\n\n"},
		{"B012 decoupled", "repeat/generate_stream", two, 200, typeEvents,
			`data: {"IDX":0,"OUT":1,"model_name":"repeat","model_version":"1"}` + "\n\n" +
				`data: {"IDX":1,"OUT":2,"model_name":"repeat","model_version":"1"}` + "\n\n"},
		{"B012 no response", "repeat/generate_stream", zero, 200, typeEvents, ""},
		{"B055 one response of a decoupled model", "repeat/generate", one, 200, typeJSON,
			`{"IDX":0,"OUT":5,"model_name":"repeat","model_version":"1"}`},
		{"B055 DV31 many responses", "repeat/generate", two, 400, typeJSON, appendedError(errManyResponses())},
		{"B055 no response", "repeat/generate", zero, 400, typeJSON, appendedError(errManyResponses())},
		{"DV35 events of infer", "repeat/infer", `{"id":"a","inputs":[{"name":"IN","shape":[2],"datatype":"INT32",` +
			`"data":[7,8]},{"name":"DELAY","shape":[2],"datatype":"UINT32","data":[0,0]},` +
			`{"name":"WAIT","shape":[1],"datatype":"UINT32","data":[0]}],"outputs":[{"name":"OUT"}]}`, 200, typeEvents,
			`data: {"id":"a","model_name":"repeat","model_version":"1","outputs":[{"name":"OUT","datatype":"INT32",` +
				`"shape":[1],"data":[7]}]}` + "\n\n" +
				`data: {"id":"a","model_name":"repeat","model_version":"1","outputs":[{"name":"OUT",` +
				`"datatype":"INT32","shape":[1],"data":[8]}]}` + "\n\n"},
		{"events of infer are text", "repeat/infer", `{"inputs":[],"parameters":{"binary_data_output":true}}`, 400,
			typeJSON,
			`{"error":"server-sent events are text: send JSON and leave out binary_data and ` +
				`binary_data_output, or use gRPC streaming"}`},
		{"missing input", "id_bytes/generate", `{}`, 400, typeJSON,
			`{"error":"[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'id_bytes'. ` +
				`Got input(s) [], but missing required input(s) ['INPUT0']. Please provide all required input(s)."}`},
		{"B056 fault before the stream", "id_bytes/generate_stream", `{}`, 400, typeJSON,
			`{"error":"[request id: <id_unknown>] expected 1 inputs but got 0 inputs for model 'id_bytes'. ` +
				`Got input(s) [], but missing required input(s) ['INPUT0']. Please provide all required input(s)."}`},
		{"malformed", "id_bytes/generate", `{`, 400, typeJSON,
			`{"error":"failed to parse the request JSON buffer: Missing a name for object member. at 1"}`},
		{"unknown model", "nope/generate", `{}`, 404, typeJSON,
			`{"error":"Request for unknown model: 'nope' is not found"}`},
		{"no object", "id_bytes/generate", `[]`, 400, typeJSON, `{"error":"` + tensorjson.ErrNoMembers.Error() + `"}`},
		{"id not a string", "id_bytes/generate", `{"id":5,"INPUT0":"a"}`, 400, typeJSON,
			`{"error":"Unable to parse 'id': ` + tensorjson.ErrNotString.Error() + `"}`},
		{"parameters not an object", "id_bytes/generate", `{"parameters":5}`, 400, typeJSON,
			`{"error":"Expected JSON object for keyword: 'parameters': ` + tensorjson.ErrNotObject.Error() + `"}`},
		{"parameter of the wrong type", "id_bytes/generate", `{"INPUT0":"a","p":{}}`, 400, typeJSON,
			`{"error":"parameter 'p' has invalid type. It should be either 'int', 'bool', or 'string'."}`},
		{"nested parameter of the wrong type", "id_bytes/generate", `{"INPUT0":"a","parameters":{"p":null}}`, 400,
			typeJSON,
			`{"error":"Converting keyword: 'parameters': parameter 'p' has invalid type. It should be either 'int',` +
				` 'bool', or 'string'."}`},
		{"number for a string", "id_bytes/generate", `{"INPUT0":5}`, 400, typeJSON,
			`{"error":"Unable to parse JSON bytes array: ` + tensorjson.ErrNotString.Error() + `"}`},
		{"string for a number", "repeat/generate", `{"IN":"x"}`, 400, typeJSON, `{"error":"Unable to parse 'data': ` +
			tensorjson.ErrNotSigned.Error() + `"}`},
		{"does not fit", "identity/generate", `{"INPUT0":[1,2,3]}`, 400, typeJSON,
			`{"error":"The schema can not convert input 'INPUT0' to tensor with proper shape"}`},
		{"B028 FP16", "id_fp16/generate", `{"INPUT0":[1]}`, 400, typeJSON,
			`{"error":"receiving FP16 data via JSON is not supported. Please use the binary data format for input ` +
				`INPUT0"}`},
		{"an input twice", "id_bytes/generate", `{"INPUT0":"a","parameters":{"INPUT0":"b"}}`, 400, typeJSON,
			`{"error":"[request id: <id_unknown>] input 'INPUT0' already exists in request"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, got := post(t, s, "/v2/models/"+tt.path, tt.body, "Accept: text/event-stream")
			if resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != tt.kind || got != tt.want {
				t.Errorf("%s answers %d %s\n%s\nwant %d %s\n%s", tt.path, resp.StatusCode,
					resp.Header.Get("Content-Type"), got, tt.status, tt.kind, tt.want)
			}
		})
	}
}

func appendedError(err error) string { return string(tensorjson.Error(err.Error())) }

// Parameters reach the model with their types. Names that infer reserves are parameters for the model, as in Triton.
func TestGenerateParameters_B054(t *testing.T) {
	s := serve(t)
	got := make(chan []infer.Parameter, 1)
	m := model("m", tensor.Int32, 1, 0, []int64{-1}, func(r *infer.Request, m *fakeModel) {
		got <- append([]infer.Parameter(nil), r.Parameters...)
		resp := r.NewResponse()
		resp.Parameters = append(resp.Parameters, r.Parameters...)
		resp.Parameters = append(resp.Parameters, infer.Parameter{Name: "model_name", Kind: infer.StringParameter,
			Text: "hidden"})
		resp.Final = true
		_ = r.Respond(resp)
	})
	s.engine.models["m"] = m
	_, body := post(t, s, "/v2/models/m/generate",
		`{"s":"x","i":-3,"parameters":{"b":true,"f":0.25,"priority":1,"big":18446744073709551615,"triton_x":"y"}}`)
	const want = `{"b":true,"big":18446744073709553000.0,"f":0.25,"i":-3,"model_name":"m","model_version":"1",` +
		`"priority":1,"s":"x","triton_x":"y"}`
	if body != want {
		t.Errorf("generate answers %s, want %s", body, want)
	}
	if p := <-got; len(p) != 7 || p[1].Kind != infer.IntParameter || p[3].Kind != infer.FloatParameter {
		t.Errorf("the model got %+v", p)
	}
}

// Events arrive when the model sends them, an error in the stream is an event, and the connection can be used again.
func TestGenerateStreamFrames_B056(t *testing.T) {
	s := serve(t)
	step := make(chan struct{})
	s.engine.models["d"] = decoupledModel("d", func(r *infer.Request) {
		_ = say(r, 1)
		<-step
		resp := r.NewResponse()
		resp.Err = status.New(status.Internal, "broken \"here\"")
		_ = r.Respond(resp)
		<-step
		_ = say(r, 3)
		end(r)
	})
	conn := dial(t, s.addr)
	io.WriteString(conn, request("POST", "/v2/models/d/generate_stream", `{"INPUT0":1}`))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != typeEvents {
		t.Fatalf("reply %+v, %v", resp, err)
	}
	lines := bufio.NewReader(resp.Body)
	for i, want := range []string{
		`data: {"OUT":1,"model_name":"d","model_version":"1"}`, `data: {"error":"broken \"here\""}`,
		`data: {"OUT":3,"model_name":"d","model_version":"1"}`,
	} {
		if i > 0 {
			step <- struct{}{} // the previous event has arrived
		}
		for _, want := range []string{want, ""} {
			if line, err := lines.ReadString('\n'); err != nil || line != want+"\n" {
				t.Fatalf("event %d: line %q, %v; want %q", i, line, err, want)
			}
		}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Fatalf("behind the last event: %q, %v", rest, err)
	}
	checkAnswer(t, send(t, conn, request("POST", addSubPath, addSubJSON)), okJSON(addSubReply))
}

// The first response decides the status.
func TestGenerateFirstResponseFails_B056(t *testing.T) {
	s := serve(t)
	for _, tt := range []struct{ path, kind, want string }{
		{"generate", typeJSON, `{"error":"my error"}`},
		{"generate_stream", typeEvents, `data: {"error":"my error"}` + "\n\n"},
	} {
		resp, body := post(t, s, "/v2/models/broken/"+tt.path, `{"INPUT0":[`+zeroTo15+`]}`)
		if resp.StatusCode != 500 || resp.Header.Get("Content-Type") != tt.kind || body != tt.want {
			t.Errorf("%s answers %d %s %q", tt.path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
}

// A client that leaves cancels its request, both while the server waits for the model and while it writes.
func TestGenerateClientLeaves_B012(t *testing.T) {
	s := serve(t)
	for _, tt := range []struct {
		name string
		run  func(r *infer.Request)
	}{
		{"while the model thinks", func(r *infer.Request) { _ = say(r, 1) }},
		{"while the reply is stuck", func(r *infer.Request) {
			big := make([]byte, 1<<20)
			for range 256 { // more than the buffers hold: Respond blocks until the client leaves
				resp := r.NewResponse()
				resp.AddOutput("OUT", tensor.Uint8, []int64{int64(len(big))}, big, nil)
				_ = r.Respond(resp)
				if r.Cancelled() {
					return
				}
			}
			t.Error("the model could send everything to a client that reads nothing")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cancelled := make(chan struct{})
			s.engine.models["d"] = decoupledModel("d", func(r *infer.Request) {
				tt.run(r)
				<-r.Done()
				end(r)
				close(cancelled)
			})
			conn := dial(t, s.addr)
			io.WriteString(conn, request("POST", "/v2/models/d/generate_stream", `{"INPUT0":1}`))
			if _, err := http.ReadResponse(bufio.NewReaderSize(conn, 256), nil); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			select {
			case <-cancelled:
			case <-time.After(30 * time.Second):
				t.Fatal("the request is not cancelled")
			}
		})
	}
	alive(t, s)
}

// generate cancels a request at the second response.
func TestGenerateStopsAtTheSecondResponse_B055(t *testing.T) {
	s := serve(t)
	cancelled := make(chan struct{})
	s.engine.models["d"] = decoupledModel("d", func(r *infer.Request) {
		_ = say(r, 1)
		_ = say(r, 2)
		<-r.Done()
		end(r)
		close(cancelled)
	})
	resp, body := post(t, s, "/v2/models/d/generate", `{"INPUT0":1}`)
	if resp.StatusCode != 400 || body != appendedError(errManyResponses()) {
		t.Errorf("generate answers %d %s", resp.StatusCode, body)
	}
	<-cancelled
}

func TestGenerateStreamNeedsHTTP11_DV34(t *testing.T) {
	s := serve(t)
	got := send(t, dial(t, s.addr), "POST /v2/models/id_bytes/generate_stream HTTP/1.0\r\nContent-Length: 14\r\n\r\n"+
		`{"INPUT0":"x"}`)
	if got.status != "400 Bad Request" || !strings.Contains(got.body, "HTTP/1.1") {
		t.Errorf("an HTTP/1.0 client gets %s %s", got.status, got.body)
	}
}

// Shutdown waits for streams, and ends them when its time is over.
func TestGenerateStreamAtShutdown(t *testing.T) {
	s := serve(t)
	cancelled := make(chan struct{})
	s.engine.models["d"] = decoupledModel("d", func(r *infer.Request) {
		_ = say(r, 1)
		<-r.Done()
		end(r)
		close(cancelled)
	})
	resp := open(t, s, "/v2/models/d/generate_stream", `{"INPUT0":1}`)
	defer resp.Body.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v", err)
	}
	<-cancelled
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("a stream that was cut off looks whole")
	}
}

func TestForwardHeaders_B040(t *testing.T) {
	forwarded := func(pattern string) func(*Options) {
		return func(o *Options) { o.ForwardHeaders = regexp.MustCompile("(?i)" + pattern) }
	}
	for _, tt := range []struct {
		name, pattern, headers, want string
		status                       int
	}{
		{name: "as sent", pattern: "prefix_.*", headers: "prefix_a: 1\r\nPREFIX_b:  two words \r\nother: 3\r\n",
			want: `"parameters":{"prefix_a":"1","PREFIX_b":"two words"}`},
		{name: "case-sensitive", pattern: "(?-i)PREFIX_.*", headers: "prefix_a: 1\r\nPREFIX_b: 2\r\n",
			want: `"parameters":{"PREFIX_b":"2"}`},
		{name: "found anywhere", pattern: "token", headers: "x-token-id: 1\r\n",
			want: `"parameters":{"x-token-id":"1"}`},
		{name: "over the body's", pattern: "^p$", headers: "p: header\r\n", want: `"parameters":{"p":"header"}`},
		{name: "reserved", pattern: ".*", headers: "priority: 1\r\n", status: 400,
			want: `{"error":"Header 'priority' is reserved for Triton usage and cannot be forwarded."}`},
		{name: "reserved names are compared exactly, as in Triton", pattern: "^timeout", headers: "Timeout: 1\r\n",
			want: `"parameters":{"Timeout":"1"}`},
		{name: "reserved prefix", pattern: ".*", headers: "triton_x: 1\r\n", status: 400,
			want: `{"error":"Header 'triton_x' is reserved for Triton usage and cannot be forwarded."}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, forwarded(tt.pattern))
			s.engine.models["echo"] = model("echo", tensor.FP32, 1, 0, []int64{-1},
				func(r *infer.Request, _ *fakeModel) {
					resp := r.NewResponse()
					resp.Parameters = append(resp.Parameters, r.Parameters...)
					resp.Final = true
					_ = r.Respond(resp)
				})
			body := oneInput("[1]", "FP32", "[1]")
			if strings.Contains(tt.name, "body") {
				body = strings.TrimSuffix(body, "}") + `,"parameters":{"p":"body"}}`
			}
			got := send(t, dial(t, s.addr), request("POST", "/v2/models/echo/infer", body,
				strings.Split(strings.TrimSuffix(tt.headers, "\r\n"), "\r\n")...))
			if tt.status == 400 {
				if got.status != "400 Bad Request" || got.body != tt.want {
					t.Errorf("infer answers %s %s", got.status, got.body)
				}
				return
			}
			if got.status != "200 OK" || !strings.Contains(got.body, tt.want) {
				t.Errorf("infer answers %s %s, want parameters %s", got.status, got.body, tt.want)
			}
		})
	}
	t.Run("none without the option, and in generate", func(t *testing.T) {
		s := serve(t)
		if _, body := post(t, s, "/v2/models/id_bytes/generate", `{"INPUT0":"a"}`,
			"prefix_a: 1"); strings.Contains(body, "prefix_a") {
			t.Errorf("a header is forwarded without being asked for: %s", body)
		}
	})
}
