package httpapi

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/shm"
	"nereid/engine/tensor"
)

// sharedObject makes a shared memory object and returns its key and a function that reads it.
func sharedObject(t *testing.T, content []byte) (key string, now func() []byte) {
	t.Helper()
	key = "/nereid_test_" + rand.Text()
	path := "/dev/shm" + key
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	return key, func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// Status, register and unregister have Triton's answers.
func TestSharedMemoryAdmin(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	key, _ := sharedObject(t, make([]byte, 64))
	row := func(name string, offset int) string {
		return fmt.Sprintf(`{"name":"%s","key":"%s","offset":%d,"byte_size":32}`, name, key, offset)
	}
	register := func(offset int) string { return fmt.Sprintf(`{"key":"%s","offset":%d,"byte_size":32}`, key, offset) }
	const sys, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
	for _, tt := range []struct {
		request, body string
		want          answer
	}{
		{"GET " + sys + "/status", "", okJSON("[]")},
		{"POST " + sys + "/region/b/register", register(16), okJSON("")},
		{"POST " + sys + "/region/a/register", fmt.Sprintf(`{"key":"%s","byte_size":32}`, key), okJSON("")},
		{"POST " + sys + "/region/a/register", register(0), badJSON("shared memory region 'a' already in manager")},
		{"POST " + sys + "/region/a%20%22%e4/register", register(0),
			badJSON(`the name of a shared memory region must be UTF-8 without NUL, it is \"a \\\"\\xe4\"`)},
		{"GET " + sys + "/status", "", okJSON("[" + row("a", 0) + "," + row("b", 16) + "]")},
		{"GET " + sys + "/region/b/status", "", okJSON("[" + row("b", 16) + "]")},
		{"GET " + sys + "/region/none/status", "", answer{status: "404 Not Found", kind: typeJSON,
			body: `{"error":"Unable to find system shared memory region: 'none'"}`}},
		{"GET " + cuda + "/region/a/status", "", answer{status: "404 Not Found", kind: typeJSON,
			body: `{"error":"The region named 'a' is registered as system shared memory, not CUDA shared memory"}`}},
		{"POST " + sys + "/register", register(0),
			badJSON("'region name' is necessary to register system shared memory region")},
		{"POST " + sys + "/region/c/register", "",
			badJSON("failed to parse the request JSON buffer: The document is empty. at 0")},
		{"POST " + sys + "/region/c/register", "{}", badJSON("Shared memory register request has no 'key' field")},
		{"POST " + sys + "/region/c/register", `{"key":"/no_such_key"}`,
			badJSON("Shared memory register request has no 'byte_size' field")},
		{"POST " + sys + "/region/c/register", `{"key":"/no_such_key","offset":0,"byte_size":64}`,
			answer{status: "500 Internal Server Error", kind: typeJSON,
				body: `{"error":"Unable to open shared memory region: '/no_such_key'"}`}},
		{"POST " + sys + "/region/c/register", `{"key":7,"byte_size":64}`, badJSON(tensorjson.ErrNotString.Error())},
		{"POST " + sys + "/region/c/register", `{"key":"k","byte_size":-1}`,
			badJSON(tensorjson.ErrNotUnsigned.Error())},
		{"POST " + sys + "/region/c/register", `{"key":"k","offset":1.5,"byte_size":1}`,
			badJSON(tensorjson.ErrNotUnsigned.Error())},
		{"POST " + sys + "/region/c/register", `{"key":"k"`,
			badJSON("failed to parse the request JSON buffer: Missing a comma or '}' after an object member. at 10")},
		{"POST " + sys + "/region/c/register", register(33),
			badJSON("failed to register shared memory region 'c': invalid args")},
		{"POST " + sys + "/region/c/register", `{"key":"/triton_python_backend_shm_region_0","byte_size":1}`,
			badJSON("cannot register shared memory region 'c' with key " +
				"'/triton_python_backend_shm_region_0' as the key contains the reserved prefix " +
				"'triton_python_backend_shm_region_'")},
		{"GET " + sys + "/region/a/register", "", answer{status: "405 Not Allowed", kind: typeJSON,
			body: `{"error":"Method Not Allowed"}`}},
		{"POST " + sys + "/status", "", answer{status: "405 Not Allowed", kind: typeJSON,
			body: `{"error":"Method Not Allowed"}`}},
		{"POST " + sys + "/region/a/unregister", "", okJSON("")},
		{"POST " + sys + "/region/a/unregister", "", okJSON("")},
		{"GET " + sys + "/status", "", okJSON("[" + row("b", 16) + "]")},
		{"POST " + sys + "/unregister", "", okJSON("")},
		{"GET " + sys + "/status", "", okJSON("[]")},
		{"GET " + cuda + "/status", "", okJSON("[]")},
		{"POST " + cuda + "/region/c/register", `{}`,
			badJSON("failed to register CUDA shared memory region: 'c', GPUs not supported")},
		{"POST " + cuda + "/unregister", "", okJSON("")},
	} {
		t.Run("B017 "+tt.request+" "+tt.body, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.request, " ")
			checkAnswer(t, send(t, conn, request(method, path, tt.body)), tt.want)
		})
	}
}

// memoryOfDevice is a fake of a GPU's memory.
type memoryOfDevice struct{ *bytes.Reader }

func (memoryOfDevice) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (memoryOfDevice) Close() error                           { return nil }

type importer struct{}

func (importer) Import(h [shm.HandleSize]byte, _ int64, _ uint64) (shm.Memory, error) {
	if h[0] != 'h' {
		return nil, fmt.Errorf("another handle: %v", h)
	}
	return memoryOfDevice{bytes.NewReader(make([]byte, 64))}, nil
}

func TestCUDASharedMemoryAdmin(t *testing.T) {
	s := serve(t, func(o *Options) { o.Engine.(*fakeEngine).regions = shm.New(shm.Options{CUDA: importer{}}) })
	conn := dial(t, s.addr)
	const handle = `"raw_handle":{"b64":"aAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA` +
		`AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}`
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", "/region/g/register", `{` + handle + `,"device_id":1,"byte_size":64}`, ""},
		{"GET", "/status", "", `[{"name":"g","device_id":1,"byte_size":64}]`},
		{"GET", "/region/g/status", "", `[{"name":"g","device_id":1,"byte_size":64}]`},
		{"POST", "/region/h/register", `{"device_id":1,"byte_size":64}`,
			`{"error":"Shared memory register request has no 'raw_handle' field"}`},
		{"POST", "/region/h/register", `{` + handle + `,"device_id":1}`,
			`{"error":"Shared memory register request has no 'byte_size' field"}`},
		{"POST", "/region/h/register", `{"raw_handle":{"b64":"aGg="},"device_id":1,"byte_size":64}`,
			`{"error":"'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t"}`},
		{"POST", "/region/h/register", `{"raw_handle":{"b64":"!"},"device_id":1,"byte_size":64}`,
			`{"error":"'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t"}`},
		{"POST", "/region/h/register", `{"raw_handle":{},"device_id":1,"byte_size":64}`,
			`{"error":"attempt to access non-existing object member 'b64'"}`},
		{"POST", "/register", `{}`, `{"error":"'region name' is necessary to register cuda shared memory region"}`},
		{"POST", "/region/g/unregister", "", ""},
		{"GET", "/status", "", "[]"},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.body, func(t *testing.T) {
			if got := send(t, conn, request(tt.method, "/v2/cudasharedmemory"+tt.path, tt.body)); got.body != tt.want {
				t.Errorf("%s %s\nwant %s", got.status, got.body, tt.want)
			}
		})
	}
}

func TestSharedMemoryOff(t *testing.T) {
	s := serve(t, func(o *Options) { o.Engine.(*fakeEngine).regions = shm.New(shm.Options{Disabled: true}) })
	conn := dial(t, s.addr)
	for _, path := range []string{"/v2/systemsharedmemory/region/a/register", "/v2/systemsharedmemory/unregister",
		"/v2/cudasharedmemory/region/a/register", "/v2/cudasharedmemory/region/a/unregister"} {
		t.Run("B053 C10 "+path, func(t *testing.T) {
			checkAnswer(t, send(t, conn, request("POST", path, `{bad`)),
				answer{status: "501 Not Implemented", kind: typeJSON,
					body: `{"error":"Client shared memory is disabled. Start the server with ` +
						`'--allow-client-shm=true' to enable."}`})
		})
	}
	checkAnswer(t, send(t, conn, request("GET", "/v2/systemsharedmemory/status", "")), okJSON("[]"))
}

// Inputs and outputs may be in shared memory, also together with others.
func TestSharedMemoryInfer(t *testing.T) {
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine = e })
	conn := dial(t, s.addr)
	for _, name := range []string{"add_sub", "identity", "id_bytes"} {
		send(t, conn, request("POST", "/v2/repository/models/"+name+"/load", ""))
	}
	words := append(tensor.AppendBytesElement(nil, "one"), tensor.AppendBytesElement(nil, "")...)
	input := append([]byte(int32s()), words...) // 64 bytes of numbers, then 11 of strings
	in, _ := sharedObject(t, input)
	out, now := sharedObject(t, bytes.Repeat([]byte{0xee}, 256))
	for name, key := range map[string]string{"in": in, "out": out} {
		size := map[string]int{"in": len(input), "out": 256}[name]
		if err := e.SharedMemory().RegisterSystem(name, key, 0, uint64(size), shm.Self); err != nil {
			t.Fatal(err)
		}
	}
	place := func(region string, offset, size int) string {
		return fmt.Sprintf(`"parameters":{"shared_memory_region":"%s","shared_memory_offset":%d,`+
			`"shared_memory_byte_size":%d}`, region, offset, size)
	}
	floats := func(data string) string { return `{"name":"INPUT0","shape":[1,16],"datatype":"FP32",` + data + `}` }
	numbers := func(name, data string) string {
		return `{"name":"` + name + `","shape":[1,16],"datatype":"INT32",` + data + `}`
	}
	body := func(inputs, outputs string) string {
		if outputs != "" {
			outputs = `,"outputs":[` + outputs + `]`
		}
		return `{"inputs":[` + inputs + `]` + outputs + `}`
	}
	ones := `"data":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]`
	onlyOut := func(params string) string { return `{"name":"OUTPUT0",` + params + `}` }
	head := func(model string) string { return `{"model_name":"` + model + `","model_version":"1","outputs":[` }
	float0 := `{"name":"OUTPUT0","datatype":"FP32","shape":[1,16]`
	var mixed, mixedHeader = withBinary(`{"inputs":[`+numbers("INPUT0", place("in", 0, 64))+`,`+
		numbers("INPUT1", `"parameters":{"binary_data_size":64}`)+`],`+
		`"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}},{"name":"OUTPUT1",`+place("out", 8, 64)+
		`}]}`, int32s())
	for _, tt := range []struct {
		name, model, body string
		headers           []string
		want              answer
		at                int    // where the outputs' object changes
		wrote             string // what is written there
	}{
		{name: "B050 input and output", model: "identity", body: body(floats(place("in", 0, 64)), onlyOut(place("out",
			16, 64))),
			want: okJSON(head("identity") + float0 + `}]}`), at: 16, wrote: int32s()},
		{name: "B050 input alone", model: "identity", body: body(floats(place("in", 0, 64)), ""),
			want: okJSON(head("identity") + float0 + `,"data":[` + floatsOf(int32s()) + `]}]}`)},
		{name: "B050 output alone, in a larger place", model: "identity",
			body: body(floats(ones), onlyOut(place("out", 100, 156))),
			want: okJSON(head("identity") + float0 + `}]}`), at: 100, wrote: strings.Repeat("\x00\x00\x80\x3f", 16)},
		{name: "B050 mixed with binary ones", model: "add_sub", body: mixed, headers: []string{mixedHeader},
			want: answer{status: "200 OK", kind: typeBinary, jsonLength: "199", body: head("add_sub") +
				`{"name":"OUTPUT0","datatype":"INT32","shape":[1,16],` +
				`"parameters":{"binary_data_size":64}},{"name":"OUTPUT1","datatype":"INT32","shape":[1,16]}]}` +
				doubled(int32s())}, at: 8, wrote: strings.Repeat("\x00", 64)},
		{name: "B050 BYTES", model: "id_bytes", body: body(`{"name":"INPUT0","shape":[2],"datatype":"BYTES",`+
			place("in", 64, 11)+`}`, onlyOut(place("out", 0, 100))),
			want:  okJSON(head("id_bytes") + `{"name":"OUTPUT0","datatype":"BYTES","shape":[2]}]}`),
			wrote: string(words)},
		{name: "B050 the offset is optional", model: "identity",
			body: body(floats(`"parameters":{"shared_memory_byte_size":64,"shared_memory_region":"in"}`),
				onlyOut(place("out", 0, 64))),
			want: okJSON(head("identity") + float0 + `}]}`), wrote: int32s()},
		{name: "C8 the same place", model: "identity", body: body(floats(place("out", 0, 64)), onlyOut(place("out",
			32, 64))),
			want: okJSON(head("identity") + float0 + `}]}`), at: 32, wrote: strings.Repeat("\xee", 64)},
		{name: "C7 a place that is too small", model: "identity", body: body(floats(place("in", 0, 64)),
			onlyOut(place("out", 0, 63))),
			want: answer{status: "500 Internal Server Error", kind: typeText,
				body: `{"error":"shared memory size specified with the request ` +
					`for output 'OUTPUT0' (63 bytes) should be at least 64 bytes to hold the results"}`}},
		{name: "B050 no size for an output", model: "identity", body: body(floats(ones),
			onlyOut(`"parameters":{"shared_memory_region":"out"}`)),
			want: badJSON("Invalid offset + byte size for shared memory region: 'out'")},
		{name: "B050 no size for an output at an offset", model: "identity", body: body(floats(ones),
			onlyOut(`"parameters":{"shared_memory_region":"out","shared_memory_offset":8}`)),
			want: answer{status: "500 Internal Server Error", kind: typeText,
				body: `{"error":"shared memory size specified with the request ` +
					`for output 'OUTPUT0' (0 bytes) should be at least 64 bytes to hold the results"}`}},
		{name: "B050 no size for an input", model: "identity",
			body: body(floats(`"parameters":{"shared_memory_region":"in"}`), ""),
			want: badJSON("[request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model " +
				"'identity'. Expected 64, got 0")},
		{name: "B050 strings that are cut", model: "id_bytes",
			body: body(`{"name":"INPUT0","shape":[2],"datatype":"BYTES",`+place("in", 64, 8)+`}`, ""),
			want: answer{status: "400 Bad Request"}},
		{name: "C4 an offset behind the region", model: "identity", body: body(floats(place("in", 75, 64)), ""),
			want: badJSON("Invalid offset for shared memory region: 'in'")},
		{name: "C4 a size behind the region", model: "identity", body: body(floats(place("in", 12, 64)), ""),
			want: badJSON("Invalid offset + byte size for shared memory region: 'in'")},
		{name: "C4 a negative offset", model: "identity", body: body(floats(place("in", -1, 64)), ""),
			want: badJSON("Unable to parse 'shared_memory_offset': " + tensorjson.ErrNotUnsigned.Error())},
		{name: "C4 an output behind the region", model: "identity", body: body(floats(ones), onlyOut(place("out", 200,
			64))), want: badJSON("Invalid offset + byte size for shared memory region: 'out'")},
		{name: "C4 a sum over 2^64", model: "identity",
			body: body(floats(`"parameters":{"shared_memory_region":"in","shared_memory_offset":8,`+
				`"shared_memory_byte_size":18446744073709551615}`), ""),
			want: badJSON("Integer overflow detected: byte_size (18446744073709551615) + offset (8) exceeds " +
				"maximum value (18446744073709551615) for region 'in'")},
		{name: "B050 data as well", model: "identity", body: body(floats(ones+","+place("in", 0, 64)), ""),
			want: badJSON("Input must set only one of the following fields: 'data', 'binary_data_size' in " +
				"'parameters', 'shared_memory_region' in 'parameters'. But set 'data' 'shared_memory_region'")},
		{name: "B050 classes as well", model: "identity", body: body(floats(ones),
			onlyOut(`"parameters":{"classification":2,"shared_memory_region":"out","shared_memory_byte_size":64}`)),
			want: badJSON("Output can't set both 'shared_memory_region' and 'classification'")},
		{name: "B050 binary as well", model: "identity", body: body(floats(ones),
			onlyOut(`"parameters":{"shared_memory_region":"out","shared_memory_byte_size":64,"binary_data":true}`)),
			want: badJSON("Output can't set both 'shared_memory_region' and 'binary_data'")},
		{name: "B050 binary_data false as well", model: "identity", body: body(floats(ones),
			onlyOut(`"parameters":{"shared_memory_region":"out","shared_memory_byte_size":64,"binary_data":false}`)),
			want: okJSON(head("identity") + float0 + `}]}`), wrote: strings.Repeat("\x00\x00\x80\x3f", 16)},
		{name: "B050 an unknown region", model: "identity", body: body(floats(place("none", 0, 64)), ""),
			want: answer{status: "404 Not Found", kind: typeJSON,
				body: `{"error":"Unable to find shared memory region: 'none'"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile("/dev/shm"+out, bytes.Repeat([]byte{0xee}, 256), 0o600); err != nil {
				t.Fatal(err)
			}
			got := send(t, conn, request("POST", "/v2/models/"+tt.model+"/infer", tt.body, tt.headers...))
			if tt.want.body == "" {
				if got.status != tt.want.status {
					t.Errorf("%s %s; want %s", got.status, got.body, tt.want.status)
				}
			} else {
				checkAnswer(t, got, tt.want)
			}
			want := bytes.Repeat([]byte{0xee}, 256)
			copy(want[tt.at:], tt.wrote)
			if b := now(); !bytes.Equal(b, want) {
				t.Errorf("the client's memory holds\n%x\nwant\n%x", b, want)
			}
		})
	}
}

// floatsOf returns bytes as a JSON list of FP32 numbers.
func floatsOf(b string) string {
	var w []byte
	for ; len(b) >= 4; b = b[4:] {
		w = append(tensorjson.AppendFloat(w, float64(math.Float32frombits(le.Uint32([]byte(b))))), ',')
	}
	return strings.TrimSuffix(string(w), ",")
}

// doubled doubles little-endian numbers.
func doubled(b string) string {
	w := []byte(b)
	for i := 0; i < len(w); i += 4 {
		le.PutUint32(w[i:], 2*le.Uint32(w[i:]))
	}
	return string(w)
}

// The responses of a decoupled model are written to the same place one after the other.
func TestSharedMemoryEvents(t *testing.T) {
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine = e })
	if err := e.LoadModel(t.Context(), "repeat", engine.LoadParameters{}); err != nil {
		t.Fatal(err)
	}
	key, now := sharedObject(t, []byte{5, 0, 0, 0, 6, 0, 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee})
	if err := e.SharedMemory().RegisterSystem("r", key, 0, 16, shm.Self); err != nil {
		t.Fatal(err)
	}
	body := func(size string) string {
		return `{"inputs":[{"name":"IN","shape":[2],"datatype":"INT32","parameters":{"shared_memory_region":"r",` +
			`"shared_memory_byte_size":8}},` +
			`{"name":"DELAY","shape":[2],"datatype":"UINT32","data":[0,0]},{"name":"WAIT","shape":[1],` +
			`"datatype":"UINT32","data":[0]}],` +
			`"outputs":[{"name":"OUT","parameters":{"shared_memory_region":"r","shared_memory_offset":8,` +
			`"shared_memory_byte_size":` + size + `}},{"name":"IDX"}]}`
	}
	t.Run("B050 in events", func(t *testing.T) {
		_, got := post(t, s, "/v2/models/repeat/infer", body("4"), "Accept: text/event-stream")
		event := func(i int) string {
			return fmt.Sprintf(`data: {"model_name":"repeat","model_version":"1","outputs":[{"name":"OUT",`+
				`"datatype":"INT32","shape":[1]},`+
				`{"name":"IDX","datatype":"UINT32","shape":[1],"data":[%d]}]}`, i) + "\n\n"
		}
		if want := event(0) + event(1); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if b := now()[8:]; !bytes.Equal(b, []byte{6, 0, 0, 0, 0xee, 0xee, 0xee, 0xee}) {
			t.Errorf("the client's memory holds %x, want the last response", b)
		}
	})
	t.Run("C7 in events", func(t *testing.T) {
		_, got := post(t, s, "/v2/models/repeat/infer", body("3"), "Accept: text/event-stream")
		want := `{"error":"shared memory size specified with the request for output 'OUT' (3 bytes) should be at ` +
			`least 4 bytes to hold the results"}`
		if strings.Count(got, want) != 2 {
			t.Errorf("got %s\nwant %s for each response", got, want)
		}
	})
}

// fuzzRegions returns a registry with the region "in", 64 bytes that count from 0.
func fuzzRegions(f *testing.F) (g *shm.Registry, content []byte) {
	f.Helper()
	dir := f.TempDir()
	content = make([]byte, 64)
	for i := range content {
		content[i] = byte(i)
	}
	if err := os.WriteFile(dir+"/in", content, 0o600); err != nil {
		f.Fatal(err)
	}
	g = shm.New(shm.Options{Folder: dir})
	f.Cleanup(func() { _ = g.Close() })
	if err := g.RegisterSystem("in", "in", 0, 64, shm.Self); err != nil {
		f.Fatal(err)
	}
	return g, content
}

// For any parameters, an input is in the region or an error, and an output's place is in the region.
func FuzzSharedMemoryParameters(f *testing.F) {
	g, content := fuzzRegions(f)
	for _, seed := range [][3]string{{`"in"`, "0", "64"}, {`"in"`, "63", "1"}, {`"in"`, "-1", "1"},
		{`"in"`, "1", "18446744073709551615"},
		{`"none"`, "0", "1"}, {"7", "1.5", "null"}, {`"in"`, "64", "0"}, {`"in"`, `0,"shared_memory_offset":8`, "8"},
		{`"\u0069n"`, "1e1", "9223372036854775808"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	var pool tensor.Pool
	f.Fuzz(func(t *testing.T, region, offset, size string) {
		params := `"parameters":{"shared_memory_region":` + region + `,"shared_memory_offset":` + offset +
			`,"shared_memory_byte_size":` + size + `}`
		r := infer.New()
		defer r.Release()
		p := &tensorjson.Parser{Pool: &pool, Regions: g}
		doc := []byte(`{"inputs":[{"name":"INPUT0","shape":[1],"datatype":"UINT8",` + params +
			`}],"outputs":[{"name":"OUTPUT0",` + params + `}]}`)
		if _, err := p.Infer(r, nil, doc, int64(len(doc))); err != nil {
			return
		}
		for i := range r.Inputs {
			if in := &r.Inputs[i]; in.Name == "INPUT0" && !bytes.Contains(content, in.Data) {
				t.Errorf("input %x is not in the region", in.Data)
			}
		}
		for i := range r.Outputs {
			if s := r.Outputs[i].Shared; s != nil && s.Size() > 64 {
				t.Errorf("a place of %d bytes in a region of 64", s.Size())
			}
		}
	})
}

// A registration has the values of its body, or is refused.
func FuzzRegisterBody(f *testing.F) {
	g, _ := fuzzRegions(f)
	for _, seed := range []string{`{"key":"in","offset":1,"byte_size":63}`, `{"key":"/in","byte_size":64}`,
		`{"key":"../in","byte_size":1}`,
		`{"key":"in","offset":18446744073709551615,"byte_size":2}`, `{"key":7}`, ``, `[]`,
		`{"key":"in","byte_size":64,"byte_size":1e1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if g.Unregister(shm.System, "r") != nil {
			t.Fatal("the region of the last round cannot be taken away")
		}
		if registerSystem(g, "r", body, shm.Self) != nil {
			return
		}
		list, err := g.Status(shm.System, "r")
		if err != nil || len(list) != 1 || strings.TrimLeft(list[0].Key, "/") != "in" || list[0].Offset > 64 ||
			list[0].ByteSize > 64-list[0].Offset {
			t.Errorf("%q registered %+v, %v", body, list, err)
		}
	})
}
