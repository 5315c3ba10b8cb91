package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/client"
	"nereid/engine/grpcapi"
	"nereid/engine/httpapi"
	"nereid/engine/tensor"
)

var configs = map[string]string{
	"add_sub": `backend: "add_sub" max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }, { name: "INPUT1" data_type: TYPE_INT32 dims: -1 } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: -1 } ]`,
	"repeat": `backend: "repeat" model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: -1 }, { name: "DELAY" data_type: TYPE_UINT32 dims: -1 },
{ name: "WAIT" data_type: TYPE_UINT32 dims: 1 } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: 1 }, { name: "IDX" data_type: TYPE_UINT32 dims: 1 } ]`,
}

var elementTypes = []tensor.DataType{tensor.Bool, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64,
	tensor.Int8,
	tensor.Int16, tensor.Int32, tensor.Int64, tensor.FP16, tensor.FP32, tensor.FP64, tensor.Bytes, tensor.BF16}

// serve serves the real engine over both protocols.
func serve() (httpURL, grpcAddress string, stop func()) {
	must := func(err error) {
		if err != nil {
			panic(err) // an example has no testing.T
		}
	}
	root, err := os.MkdirTemp("", "models")
	must(err)
	all := map[string]string{}
	for name, text := range configs {
		all[name] = text
	}
	for _, dt := range elementTypes {
		all["identity_"+dt.String()] = `backend: "identity" input { name: "INPUT0" data_type: ` + dt.ConfigName() +
			` dims: -1 } output { name: "OUTPUT0" data_type: ` + dt.ConfigName() + ` dims: -1 }`
	}
	for name, text := range all {
		must(os.MkdirAll(filepath.Join(root, name, "1"), 0o755))
		must(os.WriteFile(filepath.Join(root, name, "config.pbtxt"), []byte(text), 0o600))
	}
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: builtin.All()},
		Mode:         engine.ModeExplicit, StartupModels: []string{"*"},
	})
	must(err)
	must(e.Start(context.Background()))
	h, err := httpapi.New(httpapi.Options{Engine: e})
	must(err)
	g, err := grpcapi.New(grpcapi.Options{Engine: e, Log: slog.New(slog.DiscardHandler)})
	must(err)
	lh, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	lg, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	ended := make(chan error, 2)
	go func() { ended <- h.Serve(lh) }()
	go func() { ended <- g.Serve(lg) }()
	return "http://" + lh.Addr().String(), lg.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := errors.Join(h.Shutdown(ctx), g.Shutdown(ctx), <-ended, <-ended)
		e.Close(ctx)
		must(errors.Join(err, os.RemoveAll(root)))
	}
}

// both returns a client of each protocol for one server.
func both(t *testing.T) map[string]client.Client {
	t.Helper()
	address, target, stop := serve()
	t.Cleanup(stop)
	h, err := client.NewHTTP(address+"/", client.HTTPOptions{Client: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := client.NewGRPC(target, client.GRPCOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(); g.Close() })
	return map[string]client.Client{"HTTP": h, "gRPC": g}
}

func sums(rows int64) *client.Request {
	v := make([]int32, rows*3)
	for i := range v {
		v[i] = int32(i)
	}
	return &client.Request{Model: "add_sub", Inputs: []client.Tensor{client.Of("INPUT0", v, rows, 3),
		client.Of("INPUT1", v, rows, 3)}}
}

func TestClient_F050(t *testing.T) {
	for protocol, c := range both(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Run("information", func(t *testing.T) { information(t, c) })
			t.Run("inference", func(t *testing.T) { inference(t, c) })
			t.Run("types", func(t *testing.T) { types(t, c) })
			t.Run("large numbers", func(t *testing.T) { largeNumbers(t, c) })
			t.Run("faults", func(t *testing.T) { faults(t, c) })
			t.Run("load", func(t *testing.T) { load(t, c, "made_by_"+protocol) })
		})
	}
}

func information(t *testing.T, c client.Client) {
	ctx := t.Context()
	for name, ask := range map[string]func() (bool, error){
		"live":    func() (bool, error) { return c.Live(ctx) },
		"ready":   func() (bool, error) { return c.Ready(ctx) },
		"model":   func() (bool, error) { return c.ModelReady(ctx, "add_sub", "") },
		"version": func() (bool, error) { return c.ModelReady(ctx, "add_sub", "1") },
	} {
		if ok, err := ask(); !ok || err != nil {
			t.Errorf("%s = %t, %v", name, ok, err)
		}
	}
	if ok, err := c.ModelReady(ctx, "nope", ""); ok || err != nil {
		t.Errorf("an unknown model is ready = %t, %v; want false and no error", ok, err)
	}
	if m, err := c.ServerMetadata(ctx); err != nil || m.GetName() != "triton" ||
		!slices.Contains(m.GetExtensions(), "binary_tensor_data") {
		t.Errorf("ServerMetadata = %v, %v", m, err)
	}
	if m, err := c.ModelMetadata(ctx, "add_sub", ""); err != nil || len(m.GetInputs()) != 2 ||
		!slices.Equal(m.GetInputs()[0].GetShape(), []int64{-1, -1}) {
		t.Errorf("ModelMetadata = %v, %v", m, err)
	}
	if m, err := c.ModelConfig(ctx, "add_sub", "1"); err != nil || m.GetMaxBatchSize() != 8 ||
		m.GetBackend() != "add_sub" {
		t.Errorf("ModelConfig = %v, %v", m, err)
	}
	index, err := c.Index(ctx, true)
	if err != nil || len(index) < 2 || index[0].GetState() != "READY" {
		t.Errorf("Index = %v, %v", index, err)
	}
}

func inference(t *testing.T, c client.Client) {
	before, err := c.Statistics(t.Context(), "add_sub", "")
	if err != nil {
		t.Fatal(err)
	}
	r := sums(2)
	r.ID, r.Version, r.Priority, r.Timeout = "id-1", "1", 1, time.Second
	r.Sequence = client.Sequence{Text: "s", Start: true}
	r.Parameters = map[string]any{"flag": true, "number": int64(-7), "text": "x"}
	r.Outputs = []client.Output{{Name: "OUTPUT1"}, {Name: "OUTPUT0", Classes: 1}}
	got, err := c.Infer(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Model != "add_sub" || got.Version != "1" || got.ID != "id-1" || !got.Final || len(got.Outputs) != 2 ||
		got.Output("NOPE") != nil {
		t.Errorf("response %+v", got)
	}
	if v, err := client.Values[int32](got.Output("OUTPUT1")); err != nil || !slices.Equal(v, make([]int32, 6)) {
		t.Errorf("OUTPUT1 = %v, %v; want zeros", v, err)
	}
	if v, err := client.StringValues(got.Output("OUTPUT0")); err != nil || !slices.Equal(v, []string{"4:2", "10:2"}) {
		t.Errorf("classes = %q, %v", v, err)
	}
	after, err := c.Statistics(t.Context(), "add_sub", "")
	n := after.GetModelStats()[0].GetInferenceCount() - before.GetModelStats()[0].GetInferenceCount()
	if err != nil || n != 2 {
		t.Errorf("the statistics grew by %d inferences, %v; want 2 rows", n, err)
	}
}

// roundTrip sends values to the identity model of their type and compares the result.
func roundTrip[T client.Element](t *testing.T, c client.Client, values ...T) {
	t.Helper()
	in := client.Of("INPUT0", values)
	r, err := c.Infer(t.Context(), &client.Request{Model: "identity_" + in.DataType.String(),
		Inputs: []client.Tensor{in}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Values[T](r.Output("OUTPUT0")); err != nil || !reflect.DeepEqual(got, values) {
		t.Errorf("%v comes back as %v, %v", values, got, err)
	}
}

func types(t *testing.T, c client.Client) {
	roundTrip(t, c, true, false)
	roundTrip[uint8](t, c, 0, math.MaxUint8)
	roundTrip[uint16](t, c, 0, math.MaxUint16)
	roundTrip[uint32](t, c, 0, math.MaxUint32)
	roundTrip[uint64](t, c, 0, math.MaxUint64)
	roundTrip[int8](t, c, math.MinInt8, math.MaxInt8)
	roundTrip[int16](t, c, math.MinInt16, math.MaxInt16)
	roundTrip[int32](t, c, math.MinInt32, math.MaxInt32)
	roundTrip[int64](t, c, math.MinInt64, math.MaxInt64)
	roundTrip(t, c, float32(math.Inf(1)), math.SmallestNonzeroFloat32)
	roundTrip(t, c, math.Inf(-1), math.MaxFloat64)
	for _, dt := range []tensor.DataType{tensor.FP16, tensor.BF16} {
		in := client.Tensor{Name: "INPUT0", DataType: dt, Shape: []int64{2}, Data: []byte{1, 2, 3, 4}}
		r, err := c.Infer(t.Context(), &client.Request{Model: "identity_" + dt.String(), Inputs: []client.Tensor{in}})
		if err != nil || !slices.Equal(r.Output("OUTPUT0").Data, in.Data) {
			t.Errorf("%v: %+v, %v", dt, r, err)
		}
	}
	words := []string{"", "a", "nul\x00inside", "\xff\xfe", "日本"}
	r, err := c.Infer(t.Context(), &client.Request{Model: "identity_BYTES",
		Inputs: []client.Tensor{client.Strings("INPUT0", words)}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.StringValues(r.Output("OUTPUT0")); err != nil || !slices.Equal(got, words) {
		t.Errorf("%q comes back as %q, %v", words, got, err)
	}
	if r, err = c.Infer(t.Context(), &client.Request{Model: "identity_FP32",
		Inputs: []client.Tensor{client.Of[float32]("INPUT0", nil)}}); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Values[float32](r.Output("OUTPUT0")); err != nil || len(got) != 0 {
		t.Errorf("nothing comes back as %v, %v", got, err)
	}
}

func largeNumbers(t *testing.T, c client.Client) {
	r := sums(1)
	r.Priority, r.Sequence = math.MaxUint64, client.Sequence{ID: math.MaxUint64, Start: true, End: true}
	if _, err := c.Infer(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func faults(t *testing.T, c client.Client) {
	for _, tt := range []struct {
		name    string
		request *client.Request
		code    codes.Code
		text    string
	}{
		{"unknown model", &client.Request{Model: "nope"}, codes.NotFound,
			"Request for unknown model: 'nope' is not found"},
		{"batch too large", sums(9), codes.InvalidArgument, "batch-size must be <= 8"},
		{"name to be quoted", &client.Request{Model: "a b/c"}, codes.NotFound, "'a b/c' is not found"},
		{"decoupled", &client.Request{Model: "repeat", Inputs: []client.Tensor{client.Of("IN", []int32{1}),
			client.Of("DELAY", []uint32{0}),
			client.Of("WAIT", []uint32{0})}}, codes.Unimplemented, "decoupled"},
	} {
		_, err := c.Infer(t.Context(), tt.request)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != tt.code || !strings.Contains(e.Error(), tt.text) {
			t.Errorf("%s: %v, want code %v with %q", tt.name, err, tt.code, tt.text)
		}
	}
	r := sums(1)
	r.Parameters = map[string]any{"x": []int{1}}
	if _, err := c.Infer(t.Context(), r); err == nil || !strings.Contains(err.Error(), `parameter "x"`) {
		t.Errorf("a parameter that cannot be sent: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Infer(ctx, sums(1)); err == nil {
		t.Error("a cancelled context is no error")
	}
}

func load(t *testing.T, c client.Client, name string) {
	config := `{"name":"` + name + `","backend":"identity","max_batch_size":2,"input":[{"name":"INPUT0",` +
		`"data_type":"TYPE_FP32","dims":[2]}],` +
		`"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[2]}]}`
	if err := c.Load(t.Context(), name, client.LoadOptions{Config: config,
		Files: map[string][]byte{"1/note": []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.ModelReady(t.Context(), name, ""); !ok || err != nil {
		t.Errorf("loaded and ready = %t, %v", ok, err)
	}
	if err := c.Unload(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if ok, err := c.ModelReady(t.Context(), name, ""); ok || err != nil {
		t.Errorf("unloaded and ready = %t, %v", ok, err)
	}
	var e *client.Error
	if err := c.Load(t.Context(), "nope", client.LoadOptions{}); !errors.As(err, &e) || e.Code != codes.Internal {
		t.Errorf("load of an unknown model: %v", err)
	}
}

func TestStream_F050(t *testing.T) {
	c := both(t)["gRPC"].(*client.GRPC)
	s, err := c.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := sums(9)
	wrong.ID = "wrong"
	right := &client.Request{Model: "repeat", ID: "right", EmptyFinal: true, Inputs: []client.Tensor{
		client.Of("IN", []int32{1, 2}), client.Of("DELAY", []uint32{0, 0}), client.Of("WAIT", []uint32{0})}}
	for _, r := range []*client.Request{wrong, right} {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var finals, outputs, refused int
	for {
		r, err := s.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case r.Err != nil && strings.Contains(r.Err.Message, "batch-size"):
			refused++
		case r.ID != "right":
			t.Errorf("response %+v", r)
		case len(r.Outputs) > 0:
			outputs++
		}
		if r.Final && r.Err == nil {
			finals++
		}
	}
	if refused != 1 || outputs != 2 || finals != 1 {
		t.Errorf("%d refused, %d with outputs, %d final; want 1, 2, 1", refused, outputs, finals)
	}
}

func TestInferStreamHandsOverEachResponseAtOnce_F050(t *testing.T) {
	taken := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/event-stream" {
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for n := range 3 {
			if n == 1 {
				io.WriteString(w, `data: {"error":"not this one"}`+"\n\n")
				continue
			}
			fmt.Fprintf(w, `data: {"outputs":[{"name":"OUT","datatype":"INT32","shape":[1],"data":[%d]}]}`+"\n\n", n)
			w.(http.Flusher).Flush()
			<-taken
		}
	}))
	defer s.Close()
	c, err := client.NewHTTP(s.URL, client.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = c.InferStream(t.Context(), sums(1), func(r *client.Response) error {
		if r.Err != nil {
			got = append(got, r.Err.Message)
			return nil
		}
		got = append(got, fmt.Sprint(client.Values[int32](r.Output("OUT"))))
		taken <- struct{}{}
		return nil
	})
	if want := []string{"[0] <nil>", "not this one", "[2] <nil>"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// The first response decides on the status of HTTP.
func TestInferStreamGoesOnAfterAnErrorAsTheFirstResponse_F050(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `data: {"error":"not this one"}`+"\n\n"+
			`data: {"outputs":[{"name":"OUT","datatype":"FP32","shape":[4],"data":[1,NaN,Infinity,-Infinity]}]}`+"\n\n")
	}))
	defer s.Close()
	c, err := client.NewHTTP(s.URL, client.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = c.InferStream(t.Context(), sums(1), func(r *client.Response) error {
		if r.Err != nil {
			got = append(got, r.Err.Error())
			return nil
		}
		got = append(got, fmt.Sprint(client.Values[float32](r.Output("OUT"))))
		return nil
	})
	want := []string{"not this one (HTTP status 500)", "[1 NaN +Inf -Inf] <nil>"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestInferStreamOfAServerThatDoesNotStreamIsAnError_F050(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"outputs":[]}`)
	}))
	defer s.Close()
	c, err := client.NewHTTP(s.URL, client.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = c.InferStream(t.Context(), sums(1), func(*client.Response) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "does not stream") {
		t.Errorf("%v, want an error", err)
	}
}

func TestInferStreamOfTheServer_F050(t *testing.T) {
	c := both(t)["HTTP"].(*client.HTTP)
	r := &client.Request{Model: "repeat", ID: "7", Inputs: []client.Tensor{client.Of("IN", []int32{1, 2}),
		client.Of("DELAY", []uint32{0, 0}), client.Of("WAIT", []uint32{0})}}
	var got []int32
	each := func(r *client.Response) error {
		v, err := client.Values[int32](r.Output("OUT"))
		got = append(got, v...)
		return err
	}
	if err := c.InferStream(t.Context(), r, each); err != nil || !slices.Equal(got, []int32{1, 2}) {
		t.Errorf("%v, %v, want 1 and 2", got, err)
	}
	stop := errors.New("enough")
	if err := c.InferStream(t.Context(), r, func(*client.Response) error { return stop }); err != stop {
		t.Errorf("%v, want the error of the function", err)
	}
	r.Inputs = r.Inputs[:1]
	err := c.InferStream(t.Context(), r, each)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 400 || !strings.Contains(e.Message, "3 inputs") {
		t.Errorf("a request without all inputs: %v", err)
	}
	r.Model = "nosuch"
	if e, ok := errors.AsType[*client.Error](c.InferStream(t.Context(), r, each)); !ok || e.Status != 404 {
		t.Errorf("an unknown model: %v", e)
	}
}

// Tensors in JSON, in both directions, give the same values as in binary form.
func TestTensorsInJSON(t *testing.T) {
	address, _, stop := serve()
	t.Cleanup(stop)
	var got []*client.Response
	for _, o := range []client.HTTPOptions{{}, {JSONInputs: true}, {JSONOutputs: true},
		{JSONInputs: true, JSONOutputs: true}} {
		o.Client = &http.Client{Transport: &http.Transport{}}
		c, err := client.NewHTTP(address, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, outputs := range [][]client.Output{nil, {{Name: "OUTPUT0"}, {Name: "OUTPUT1"}}} {
			r := sums(2)
			r.Outputs = outputs
			answer, err := c.Infer(t.Context(), r)
			if err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
			got = append(got, answer)
		}
	}
	for i, r := range got {
		if len(r.Outputs) != 2 || !reflect.DeepEqual(r.Outputs, got[0].Outputs) {
			t.Errorf("answer %d has the outputs %v, want %v", i, r.Outputs, got[0].Outputs)
		}
	}
}

// A malformed response is an error and does not panic.
func TestMalformedResponsesAreErrors(t *testing.T) {
	for _, tt := range []struct{ name, length, body, want string }{
		{"no JSON", "", "hello", "the response's JSON"},
		{"no number", "x", "{}", "header length"},
		{"longer than the body", "99", "{}", "header length"},
		{"more bytes than there are", "80", `{"outputs":[{"name":"O","shape":[4],` +
			`"parameters":{"binary_data_size":16}}]}     abc`, "left"},
		{"bytes left over", "2", "{}abc", "left over"},
		{"JSON data", "", `{"outputs":[{"name":"O","shape":[1],"datatype":"FP32","data":[1,2]}]}`, "has 2 values"},
		{"neither form", "", `{"outputs":[{"name":"O","shape":[1],"datatype":"FP32"}]}`, "binary form"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.length != "" {
					w.Header().Set("Inference-Header-Content-Length", tt.length)
				}
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			c, err := client.NewHTTP(s.URL, client.HTTPOptions{Token: "t"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Infer(t.Context(), sums(1)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Infer = %v, want an error with %q", err, tt.want)
			}
		})
	}
	for _, address := range []string{"localhost:8000", "ftp://x", "http://"} {
		if _, err := client.NewHTTP(address, client.HTTPOptions{}); err == nil {
			t.Errorf("NewHTTP(%q) has no error", address)
		}
	}
}

func TestValuesThatDoNotFit(t *testing.T) {
	x := client.Of("x", []int32{1, 2}, 3)
	if v, err := client.Values[int32](&x); err == nil {
		t.Errorf("Values of too few bytes = %v", v)
	}
	x = client.Of("x", []int32{1, 2}, 1<<40, 1<<40)
	if v, err := client.Values[int32](&x); err == nil {
		t.Errorf("Values of a shape that wraps = %v", v)
	}
	if v, err := client.Values[float32](&x); err == nil {
		t.Errorf("Values of another type = %v", v)
	}
	x = client.Tensor{Name: "x", DataType: tensor.Bytes, Shape: []int64{2}, Data: []byte{9, 0, 0, 0, 'a'}}
	if v, err := client.StringValues(&x); err == nil {
		t.Errorf("StringValues of a cut-off tensor = %q", v)
	}
}

func TestAnErrorOfALoadEndsWithItsStatus(t *testing.T) {
	e := &client.Error{Message: "load failed for model 'm': no backend;\n", Status: 400}
	if got, want := e.Error(), "load failed for model 'm': no backend (HTTP status 400)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	e = &client.Error{Message: "no such model", Code: codes.NotFound}
	if got, want := e.Error(), "no such model (NotFound)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
