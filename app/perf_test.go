package app

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"nereid/app/certs/certstest"
	"nereid/app/command"
	perfcmd "nereid/app/command/perf"
)

// perfModels is a repository with a model of each kind.
func perfModels(t *testing.T) string {
	t.Helper()
	files := map[string]string{
		"plain": `backend: "identity" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }`,
		"words": `backend: "identity"
input { name: "INPUT0" data_type: TYPE_STRING dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_STRING dims: -1 }`,
		"sums": `backend: "add_sub" ` + twoTensors("input", "INPUT") + twoTensors("output", "OUTPUT"),
		"repeat": `backend: "repeat" model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: -1 }
input { name: "DELAY" data_type: TYPE_UINT32 dims: -1 }
input { name: "WAIT" data_type: TYPE_UINT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
output { name: "IDX" data_type: TYPE_UINT32 dims: 1 }`,
		"seq": `backend: "sequence" max_batch_size: 8
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 } output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
sequence_batching {
  direct { }
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
}`,
		"pair": `platform: "ensemble" max_batch_size: 8
input { name: "I" data_type: TYPE_FP32 dims: 16 } output { name: "O" data_type: TYPE_FP32 dims: 16 }
ensemble_scheduling {
  step { model_name: "plain" model_version: -1
    input_map { key: "INPUT0" value: "I" } output_map { key: "OUTPUT0" value: "t" } }
  step { model_name: "plain" model_version: -1
    input_map { key: "INPUT0" value: "t" } output_map { key: "OUTPUT0" value: "O" } }
}`,
	}
	root := t.TempDir()
	for name, text := range files {
		writeFiles(t, root, map[string]string{name + "/config.pbtxt": text, name + "/1/x": ""})
	}
	return root
}

func twoTensors(kind, name string) string {
	return fmt.Sprintf("%s [ { name: %q data_type: TYPE_INT32 dims: 4 }, { name: %q data_type: TYPE_INT32 dims: 4 } ] ",
		kind, name+"0", name+"1")
}

// perfRig is a server with these models.
func perfRig(t *testing.T) *rig {
	return runServer(t, "", "--model-repository="+perfModels(t), "--load-model=plain", "--load-model=words",
		"--load-model=sums",
		"--load-model=repeat", "--load-model=seq", "--load-model=pair")
}

// counted returns how many requests of a model succeeded and failed on the server.
func (r *rig) counted(t *testing.T, model string) (good, bad uint64) {
	t.Helper()
	_, text := get(t, "GET", "http://"+r.at("http")+"/v2/models/"+model+"/stats")
	var doc struct {
		Stats []struct {
			I struct{ Success, Fail struct{ Count uint64 } } `json:"inference_stats"`
		} `json:"model_stats"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Stats) != 1 {
		t.Fatalf("statistics %s: %v", text, err)
	}
	return doc.Stats[0].I.Success.Count, doc.Stats[0].I.Fail.Count
}

// perfRun runs nereid perf and checks the exit status.
func perfRun(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := perfcmd.Run(t.Context(), &command.Env{Version: Version, Stdout: &out, Stderr: &errs},
		args); code != want {
		t.Fatalf("nereid perf %q = %d, want %d\n%s%s", args, code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func readCSV(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %q, %v", path, rows, err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = row[i]
		}
		out = append(out, m)
	}
	return out
}

// The report counts as many requests as the server has had, over each protocol and for each kind of model.
func TestPerf_F013(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := perfRig(t)
	values := writeFiles(t, t.TempDir(), map[string]string{
		"repeat.json": `{"data": [{"IN": {"content": [1, 2, 3], "shape": [3]},
  "DELAY": {"content": [0, 0, 0], "shape": [3]}, "WAIT": [0]}]}`,
		"sums.json": `{"data": [{"INPUT0": [1,2,3,4], "INPUT1": [1,1,1,1]}, {"INPUT0": [5,6,7,8], "INPUT1": [0,0,0,0]}],
  "validation_data": [{"OUTPUT0": [2,3,4,5], "OUTPUT1": [0,1,2,3]}, {"OUTPUT0": [5,6,7,8]}]}`,
		"wrong.json": `{"data": [{"INPUT0": [1,2,3,4], "INPUT1": [1,1,1,1]}],
  "validation_data": [{"OUTPUT0": [2,3,4,6]}]}`,
		"raw/INPUT0":  "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00",
		"raw/INPUT1":  strings.Repeat("\x00", 16),
		"raw/OUTPUT1": "\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00",
	})
	for _, tt := range []struct {
		name, proto, model string
		args               []string
		responses          float64 // for a request; 0: the model is not decoupled
	}{
		{name: "F001 F010 http", proto: "http", model: "plain"},
		{name: "F013 http json", proto: "http", model: "plain", args: []string{"--input-tensor-format=json",
			"--output-tensor-format=json"}},
		{name: "F011 http batch", proto: "http", model: "plain", args: []string{"-b4"}},
		{name: "F011 http strings of a free size", proto: "http", model: "words",
			args: []string{"--shape", "INPUT0:5", "--string-length", "7"}},
		{name: "F011 http json of a file, with validation", proto: "http", model: "sums",
			args: []string{"--input-data", values + "/sums.json", "--output-tensor-format", "json"}},
		{name: "F011 grpc a folder, with validation", proto: "grpc", model: "sums",
			args: []string{"--input-data", values + "/raw"}},
		{name: "F013 grpc", proto: "grpc", model: "plain", args: []string{"--async"}},
		{name: "F013 grpc gzip", proto: "grpc", model: "plain", args: []string{"--grpc-compression-algorithm", "gzip"}},
		{name: "F013 grpc deflate", proto: "grpc", model: "plain",
			args: []string{"--grpc-compression-algorithm", "deflate"}},
		{name: "F013 grpc stream", proto: "grpc", model: "plain", args: []string{"--streaming"}},
		{name: "F013 grpc stream with validation", proto: "grpc", model: "sums",
			args: []string{"--streaming", "--input-data", values + "/sums.json"}},
		{name: "F013 grpc stream, decoupled", proto: "grpc", model: "repeat",
			args: []string{"--streaming", "--input-data", values + "/repeat.json"}, responses: 3},
		{name: "F002 http rate", proto: "http", model: "plain", args: []string{"--request-rate-range", "40"}},
		{name: "F002 grpc stream rate", proto: "grpc", model: "plain",
			args: []string{"--streaming", "--request-rate-range", "40", "--request-distribution", "poisson"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.csv")
			args := append([]string{"-m", tt.model, "-i", tt.proto, "-u", r.at(tt.proto), "--request-count", "60",
				"--warmup-request-count", "5", "-f", path}, tt.args...)
			if !slices.Contains(args, "--request-rate-range") {
				args = append(args, "--concurrency-range", "4")
			}
			before, failed := r.counted(t, tt.model)
			out, _ := perfRun(t, 0, args...)
			after, failedAfter := r.counted(t, tt.model)
			if after-before != 65 || failedAfter != failed {
				t.Errorf("the server counts %d requests and %d failed, want 65 and none\n%s", after-before,
					failedAfter-failed, out)
			}
			if !strings.Contains(out, "Request count: 60\n") ||
				!strings.Contains(out, "Successful request count: 60\n") {
				t.Errorf("the report does not say 60 requests on both sides:\n%s", out)
			}
			row := readCSV(t, path)[0]
			rate, err := strconv.ParseFloat(row["Inferences/Second"], 64)
			if err != nil || rate <= 0 {
				t.Errorf("CSV %v", row)
			}
			if got, has := row["Response Throughput"]; has != (tt.responses > 0) {
				t.Errorf("CSV %v", row)
			} else if has {
				if n, err := strconv.ParseFloat(got, 64); err != nil || n < (tt.responses-.01)*rate ||
					n > (tt.responses+.01)*rate {
					t.Errorf("%s responses a second, want %v times %v", got, tt.responses, rate)
				}
			}
		})
	}
	t.Run("F011 responses that differ from validation_data", func(t *testing.T) {
		_, errs := perfRun(t, 99, "-m", "sums", "-u", r.at("http"), "--input-data", values+"/wrong.json",
			"--request-count", "10")
		if !strings.Contains(errs, `output "OUTPUT0" (INT32[4]) is not what validation_data says`) {
			t.Errorf("stderr %s", errs)
		}
	})
	t.Run("F013 a decoupled model without a stream", func(t *testing.T) {
		_, errs := perfRun(t, 99, "-m", "repeat", "-u", r.at("http"), "--shape=IN:1", "--shape=DELAY:1")
		if !strings.Contains(errs, "add -i grpc --streaming") {
			t.Errorf("stderr %s", errs)
		}
	})
	for _, tt := range []struct {
		name, proto string
		args        []string
	}{
		{"F015 sequences over http", "http", []string{"--concurrency-range", "3"}},
		{"F015 sequences over a grpc stream", "grpc", []string{"--streaming", "--concurrency-range", "3"}},
		{"F015 a rate of sequences' requests", "grpc", []string{"--request-rate-range", "50", "--num-of-sequences",
			"3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, failed := r.counted(t, "seq")
			out, _ := perfRun(t, 0, append([]string{"-m", "seq", "-i", tt.proto, "-u", r.at(tt.proto),
				"--request-count", "90",
				"--sequence-length", "8", "--sequence-length-variation", "0", "--sequence-id-range", "100:110"},
				tt.args...)...)
			after, failedAfter := r.counted(t, "seq")
			// Sequences that run at the end get one more request, which ends them.
			if n := after - before; n < 90 || n > 93 || failedAfter != failed ||
				!strings.Contains(out, "Sequence count: ") {
				t.Errorf("the server counts %d requests and %d failed, want 90 to 93 and none\n%s", n,
					failedAfter-failed, out)
			}
		})
	}
}

func TestPerfOutput(t *testing.T) {
	r := perfRig(t)
	dir := t.TempDir()
	t.Run("F016 the parts of an ensemble", func(t *testing.T) {
		out, _ := perfRun(t, 0, "-m", "pair", "-u", r.at("http"), "--request-count", "20", "-f", dir+"/pair.csv")
		if _, parts, ok := strings.Cut(out, "Composing models:"); !ok ||
			!strings.Contains(parts, "plain, version: 1\n") ||
			!strings.Contains(parts, "Successful request count: 40\n") {
			t.Errorf("report:\n%s", out)
		}
		whole, part := readCSV(t, dir+"/pair.csv")[0], readCSV(t, dir+"/plain_v1.pair.csv")[0]
		a, err := strconv.ParseFloat(whole["Inferences/Second"], 64)
		b, err2 := strconv.ParseFloat(part["Inferences/Second"], 64)
		if err != nil || err2 != nil || b < 1.99*a || b > 2.01*a || part["Server Compute Infer"] == "" {
			t.Errorf("%v rows a second of the ensemble, %v of its model, which it asks twice; %v %v", a, b, err, err2)
		}
	})
	t.Run("F016 models that another one calls", func(t *testing.T) {
		out, _ := perfRun(t, 0, "-m", "plain", "-u", r.at("http"), "--request-count", "5", "--bls-composing-models",
			"words:1,sums")
		if !strings.Contains(out, "words, version: 1\n") || !strings.Contains(out, "sums, version: 1\n") {
			t.Errorf("report:\n%s", out)
		}
	})
	t.Run("F018 columns", func(t *testing.T) {
		for _, tt := range []struct {
			args []string
			want string
		}{
			{nil, "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute " +
				"Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 " +
				"latency,p99 latency"},
			{[]string{"--verbose-csv"},
				"Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute " +
					"Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 " +
					"latency,p99 latency,Avg latency,request/response,response wait"},
			{[]string{"--request-rate-range", "20", "--percentile", "80", "--verbose-csv"},
				"Request Rate,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute " +
					"Input,Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p80 latency,p90 " +
					"latency,p95 latency,p99 latency,request/response,response wait"},
		} {
			path := dir + "/columns.csv"
			perfRun(t, 0, append([]string{"-m", "plain", "-u", r.at("http"), "--request-count", "20", "-f", path},
				tt.args...)...)
			b, err := os.ReadFile(path)
			if head, _, _ := strings.Cut(string(b), "\n"); err != nil || head != tt.want {
				t.Errorf("%q: columns\n%s\nwant\n%s", tt.args, head, tt.want)
			}
		}
	})
	t.Run("F019 every request", func(t *testing.T) {
		path := dir + "/export.json"
		perfRun(t, 0, "-m", "seq", "-u", r.at("http"), "--request-count", "12", "--profile-export-file", path,
			"--input-data", "zero")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Experiments []struct {
				Experiment struct {
					Mode  string
					Value float64
				}
				Requests []struct {
					Timestamp int64
					Sequence  uint64           `json:"sequence_id"`
					Inputs    map[string]int   `json:"request_inputs"`
					Times     []int64          `json:"response_timestamps"`
					Outputs   []map[string]int `json:"response_outputs"`
				}
				Bounds []int64 `json:"window_boundaries"`
			}
			Kind string `json:"service_kind"`
		}
		if err := json.Unmarshal(b, &doc); err != nil || len(doc.Experiments) != 1 || doc.Kind != "triton" {
			t.Fatalf("%s: %v", b, err)
		}
		e := doc.Experiments[0]
		const sent = 12 + 1 // that ends the sequence, and does not count
		if e.Experiment.Mode != "concurrency" || e.Experiment.Value != 1 || len(e.Requests) != sent ||
			len(e.Bounds) != 2 {
			t.Fatalf("%+v", e)
		}
		for _, q := range e.Requests {
			_, in := q.Inputs["INPUT"]
			if len(q.Times) != 1 || len(q.Outputs) != 1 || q.Timestamp <= 0 || q.Times[0] < q.Timestamp ||
				q.Sequence == 0 || !in {
				t.Errorf("request %+v", q)
			}
		}
		if _, errs := perfRun(t, 3, "-m", "seq", "-u", r.at("http"), "--profile-export-file",
			path); !strings.Contains(errs, "is there already") {
			t.Errorf("stderr %s", errs)
		}
	})
	t.Run("F019 no file of a run whose first request fails", func(t *testing.T) {
		path, data := dir+"/failed.json", dir+"/wrong.json"
		if err := os.WriteFile(data, []byte(`{"data": [{"INPUT0": ["a"]}],
			"validation_data": [{"OUTPUT0": ["b"]}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		perfRun(t, 99, "-m", "words", "-u", r.at("http"), "--input-data", data, "--profile-export-file", path)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is there: %v", err)
		}
	})
	t.Run("F020 metrics of the GPUs", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer key" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			io.WriteString(w, "nv_gpu_utilization{gpu_uuid=\"GPU-a\"} "+
				"0.5\nnv_gpu_memory_used_bytes{gpu_uuid=\"GPU-a\"} "+
				"1000\nnv_gpu_memory_total_bytes{gpu_uuid=\"GPU-a\"} 8000\n")
		}))
		defer s.Close()
		out, _ := perfRun(t, 0, "-m", "plain", "-u", r.at("http"), "--request-count", "5", "-f", dir+"/gpu.csv",
			"--verbose-csv", "--collect-metrics", "--metrics-url", s.URL, "--metrics-interval", "10", "-H",
			"Authorization: Bearer key")
		row := readCSV(t, dir+"/gpu.csv")[0]
		if row["Avg GPU Utilization"] != "GPU-a:0.5;" || row["Avg GPU Power Usage"] != "" ||
			row["Max GPU Memory Usage"] != "GPU-a:1000;" || row["Total GPU Memory"] != "GPU-a:8000;" ||
			!strings.Contains(out, "GPU-a : 50%") {
			t.Errorf("CSV %v, report\n%s", row, out)
		}
		perfRun(t, 0, "-m", "plain", "-u", r.at("http"), "--request-count", "5", "--collect-metrics", "--metrics-url",
			r.at("metrics")+"/metrics")
	})
	t.Run("an interrupt ends with what was measured", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out, errs lockedBuffer
		stop := writerFunc(func(b []byte) (int, error) {
			if bytes.Contains(b, []byte("Pass [1]")) {
				cancel()
			}
			return out.Write(b)
		})
		code := perfcmd.Run(ctx, &command.Env{Stdout: stop, Stderr: &errs},
			[]string{"-m", "plain", "-u", r.at("http"), "-v",
				"--measurement-mode", "count_windows", "-r", "100000", "-s", "0", "-f", dir + "/cut.csv"})
		if row := readCSV(t, dir+"/cut.csv"); code != 0 || len(row) != 1 ||
			!strings.Contains(errs.String(), "interrupted") || !strings.Contains(out.String(), "Throughput: ") {
			t.Errorf("status %d, CSV %v\n%s%s", code, row, out.String(), errs.String())
		}
	})
	t.Run("F009 no stable measurement", func(t *testing.T) {
		for levels, left := range map[string]bool{"1:3": true, "1": false} {
			_, errs := perfRun(t, 2, "-m", "plain", "-u", r.at("http"), "-p", "20", "-r", "2",
				"--concurrency-range", levels, "-f", dir+"/none.csv")
			if !strings.Contains(errs, "Failed to obtain stable measurement within 2 measurement windows") ||
				!strings.Contains(errs, "none.csv is not written") ||
				strings.Contains(errs, "The levels after 1 are not measured.") != left {
				t.Errorf("levels %s: stderr %s", levels, errs)
			}
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// The server receives what the options say.
func TestPerfRequests_F017(t *testing.T) {
	r := perfRig(t)
	var mu sync.Mutex
	var heads []http.Header
	var bodies []map[string]any
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(req.URL.Path, "/infer") {
			n := len(body)
			if v := req.Header.Get("Inference-Header-Content-Length"); v != "" {
				n, _ = strconv.Atoi(v)
			}
			doc := map[string]any{}
			if err := json.Unmarshal(body[:n], &doc); err != nil {
				t.Errorf("request %q: %v", body[:n], err)
			}
			mu.Lock()
			heads, bodies = append(heads, req.Header), append(bodies, doc)
			mu.Unlock()
		}
		out, err := http.NewRequestWithContext(req.Context(), req.Method, "http://"+r.at("http")+req.URL.Path,
			bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = req.Header
		resp, err := http.DefaultClient.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		if _, err := io.Copy(w, resp.Body); err != nil {
			t.Error(err)
		}
	}))
	defer proxy.Close()
	perfRun(t, 0, "-m", "plain", "-x", "1", "-u", proxy.URL, "--request-count", "3", "-H", "X-One: 1", "-HX-Two:2",
		"--request-parameter", "max_tokens:256:int", "--request-parameter", "mode:fast:string")
	if len(bodies) != 3 {
		t.Fatalf("%d requests, want 3", len(bodies))
	}
	for i, b := range bodies {
		p, _ := b["parameters"].(map[string]any)
		if p["max_tokens"] != 256.0 || p["mode"] != "fast" {
			t.Errorf("F017 parameters %v", p)
		}
		if heads[i].Get("X-One") != "1" || heads[i].Get("X-Two") != "2" {
			t.Errorf("F013 headers %v", heads[i])
		}
	}
}

func TestPerfTLS_F013(t *testing.T) {
	authority, other := certstest.NewAuthority(t), certstest.NewAuthority(t)
	r, _, _ := runSecure(t, authority, certstest.Leaf{}, true)
	cert, key, root := authority.Write(t, t.TempDir(), certstest.Leaf{})
	_, _, foreign := other.Write(t, t.TempDir(), certstest.Leaf{})
	der := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(b)
		return writeFiles(t, t.TempDir(), map[string]string{"x.der": string(block.Bytes)}) + "/x.der"
	}
	grpc := []string{"-i", "grpc", "-u", r.at("grpc"), "--ssl-grpc-use-ssl", "--ssl-grpc-private-key-file", key,
		"--ssl-grpc-certificate-chain-file", cert}
	https := []string{"-u", "https://" + r.at("http")}
	named, _, _ := runSecure(t, authority, certstest.Leaf{Hosts: []string{"other.example"}}, false)
	misnamed := []string{"-u", "https://" + named.at("http")}
	pair := []string{"--ssl-https-client-certificate-file", cert, "--ssl-https-private-key-file", key}
	for _, tt := range []struct {
		name string
		args []string
		want string // part of the refusal; "": it passes
	}{
		{"grpc", append(grpc, "--ssl-grpc-root-certifications-file", root), ""},
		{"grpc, another authority", append(grpc, "--ssl-grpc-root-certifications-file", foreign), "unknown authority"},
		{"https", append(append(https, pair...), "--ssl-https-ca-certificates-file", root), ""},
		{"https, DER", append(https, "--ssl-https-client-certificate-file", der(cert),
			"--ssl-https-client-certificate-type=DER", "--ssl-https-private-key-file", der(key),
			"--ssl-https-private-key-type=DER", "--ssl-https-ca-certificates-file", root), ""},
		{"https, another authority", append(append(https, pair...), "--ssl-https-ca-certificates-file", foreign),
			"unknown authority"},
		{"https, another authority, not verified", append(append(https, pair...), "--ssl-https-ca-certificates-file",
			foreign, "--ssl-https-verify-peer", "0", "--ssl-https-verify-host", "0"), ""},
		{"https, another authority, the name alone verified",
			append(append(https, pair...), "--ssl-https-ca-certificates-file", foreign, "--ssl-https-verify-peer", "0"),
			""},
		{"https, another name", append(append(misnamed, pair...), "--ssl-https-ca-certificates-file", root), "IP SANs"},
		{"https, another name, the name alone verified",
			append(append(misnamed, pair...), "--ssl-https-ca-certificates-file", root, "--ssl-https-verify-peer", "0"),
			"IP SANs"},
		{"https, another name, the chain alone verified",
			append(append(misnamed, pair...), "--ssl-https-ca-certificates-file", root, "--ssl-https-verify-host", "0"),
			""},
		{"https, the chain alone verified", append(append(https, pair...), "--ssl-https-ca-certificates-file", foreign,
			"--ssl-https-verify-host", "0"), "unknown authority"},
		{"https without a certificate", append(https, "--ssl-https-ca-certificates-file", root), "certificate"},
	} {
		t.Run("F013 "+tt.name, func(t *testing.T) {
			want := 0
			if tt.want != "" {
				want = 99
			}
			_, errs := perfRun(t, want, append([]string{"-m", "good", "--request-count", "3"}, tt.args...)...)
			if !strings.Contains(errs, tt.want) {
				t.Errorf("stderr %s, want %q", errs, tt.want)
			}
		})
	}
}

func TestPerfRefusesWrongOptions(t *testing.T) {
	dir := writeFiles(t, t.TempDir(), map[string]string{
		"gaps": "1\nx\n", "good-gaps": "1\n", "there.json": "{}", "text": "abc", "empty": `{"data": []}`,
		"good": `{"data": [{"I": [1]}]}`,
	})
	for _, tt := range []struct{ line, want string }{
		{"", "-m: name the model"},
		{"-m a b", `unexpected argument "b"`},
		{"-m a --nosuch", "unknown option -nosuch"},
		{"-m a --concurrency-range 0", "--concurrency-range"},
		{"-m a --concurrency-range 1:x", `"x" is no whole number`},
		{"-m a --request-rate-range -5", "--request-rate-range"},
		{"-m a --request-intervals " + dir + "/gaps", `line 2: "x"`},
		{"-m a --request-intervals /nonexistent", "--request-intervals"},
		{"-m a --concurrency-range 1 --request-rate-range 1", "choose one"},
		{"-m a -t 4 --concurrency-range 1", "-t, -c and -d are old forms"},
		{"-m a --streaming", "add -i grpc"},
		{"-m a --grpc-compression-algorithm gzip", "add -i grpc"},
		{"-m a -i grpc --input-tensor-format json", "only HTTP"},
		{"-m a --async --sync", "choose one"},
		{"-m a --percentile 100", "want -1 for the average, or 1 to 99"},
		{"-m a -p 0", "above 0"},
		{"-m a -s x", "want a percentage"},
		{"-m a -b 0", "want a whole number from 1 on"},
		{"-m a --shape I", "want name:d,d,…"},
		{"-m a --request-parameter a:1:float", "none of bool, int and string"},
		{"-m a --sequence-id-range 5:4", "--sequence-id-range"},
		{"-m a --metrics-url x", "want --collect-metrics"},
		{"-m a --service-kind tfserving", "TensorFlow Serving has another protocol"},
		{"-m a --service-kind torchserve", "TorchServe has another protocol"},
		{"-m a --service-kind openai", "OpenAI's API is another protocol"},
		{"-m a --service-kind triton_c_api", "nereid perf loads no library"},
		{"-m a --service-kind dynamic_grpc", "KServe v2"},
		{"-m a --service-kind x", "want triton"},
		{"-m a --enable-mpi", "start one nereid perf for each model"},
		{"-m a --session-concurrency 3", "sessions of chats"},
		{"-m a --trace-level TIMESTAMPS", "trace API"},
		{"-m a -H x", "want Header:Value"},
		{"-m a -i x", "want http or grpc"},
		{"-m a --concurrency-range 1:0", "give one of both"},
		{"-m a -d", "give one of both"},
		{"-m a --binary-search", "a binary search wants a range"},
		{"-m a --binary-search -l 5 --request-intervals " + dir + "/good-gaps", "a binary search wants a range"},
		{"-m a --binary-search --concurrency-range 1:8", "and a latency threshold"},
		{"-m a --concurrency-range 1:8 --request-count 9", "wants one level"},
		{"-m a --request-rate-range 1:8 --warmup-request-count 9", "wants one level"},
		{"-m a --concurrency-range 8 --request-count 7", "7 requests are fewer"},
		{"-m a --fixed-schedule", "--input-data with a timestamp"},
		{"-m a --fixed-schedule -z", "--input-data with a timestamp"},
		{"-m a --fixed-schedule -b 2 --input-data " + dir + "/good", "it has no batches"},
		{"-m a --fixed-schedule --request-count 3 --input-data " + dir + "/good", "no number of requests"},
		{"-m a --input-data nonexistent", "want zero, random, a folder or a file of JSON"},
		{"-m a --input-data " + dir + " --input-data nonexistent", "want zero, random, a folder or a file of JSON"},
		{"-m a --input-data " + dir + "/text", "no JSON of the form"},
		{"-m a --input-data " + dir + "/empty", "or an empty one"},
		{"-m a -f " + dir + "/none/a.csv", "-f: stat " + dir + "/none: no such file"},
		{"-m a -f " + dir + "/text/a.csv", "-f: " + dir + "/text is no folder"},
		{"-m a -f " + dir, "-f: " + dir + " is a folder"},
		{"-m a --profile-export-file " + dir + "/none/a.json", "--profile-export-file: stat " + dir + "/none: no such"},
		{"-m a --profile-export-file " + dir + "/there.json", "is there already"},
		{"-m a -f " + dir + "/a --profile-export-file " + dir + "/a", "name two files"},
		{"-m a --collect-metrics --metrics-url http:///x", "--metrics-url"},
		{"-m a -x one", "-x: want a whole number"},
		{"-m a --bls-composing-models b:one", "--bls-composing-models"},
		{"-m a -i grpc --ssl-grpc-use-ssl --ssl-grpc-root-certifications-file " + dir + "/text", "no certificate"},
		{"-m a --ssl-https-ca-certificates-file " + dir + "/text", "no certificate"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			_, errs := perfRun(t, 3, append([]string{"-u", "127.0.0.1:1"}, strings.Fields(tt.line)...)...)
			if !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("stderr %q, want one line with %q", errs, tt.want)
			}
		})
	}
	if out, _ := perfRun(t, 0, "--help"); !strings.Contains(out, "--concurrency-range") {
		t.Errorf("--help prints %q", out)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, errs := perfRun(t, 99, "-m", "a", "-u", gone.URL); !strings.Contains(errs, "refused") {
		t.Errorf("without a server: %q", errs)
	}
}
