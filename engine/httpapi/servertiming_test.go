package httpapi

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/infer"
)

// A reply has a Server-Timing header only if the request asks for it.
func TestServerTiming(t *testing.T) {
	e := realEngine(t)
	s := serve(t, func(o *Options) { o.Engine = e })
	post := func(path, body, timing string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, "http://"+s.addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if timing != "" {
			r.Header.Set("Nereid-Timing", timing)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for name, config := range map[string]string{"add_sub": "", "two": `{"parameters":{"config":` +
		strconv.Quote(twoSteps) + `,"file:1/none":"eA=="}}`} {
		if resp := post("/v2/repository/models/"+name+"/load", config, ""); resp.StatusCode != 200 {
			text, _ := io.ReadAll(resp.Body)
			t.Fatalf("load %s answers %s %s", name, resp.Status, text)
		}
	}
	want := regexp.MustCompile(`^queue;dur=\d+\.\d{3}, input;dur=\d+\.\d{3}, infer;dur=\d+\.\d{3}, ` +
		`output;dur=\d+\.\d{3}, total;dur=\d+\.\d{3}$`)
	for timing, ok := range map[string]bool{"1": true, "": false, "0": false} {
		resp := post(addSubPath, addSubJSON, timing)
		if got := resp.Header.Get("Server-Timing"); resp.StatusCode != 200 || want.MatchString(got) != ok || !ok &&
			got != "" {
			t.Errorf("Nereid-Timing %q: status %s, Server-Timing %q; want it %v", timing, resp.Status, got, ok)
		}
	}
	t.Run("an ensemble's steps", func(t *testing.T) {
		resp := post("/v2/models/two/infer", addSubJSON, "1")
		_, steps, _ := strings.Cut(resp.Header.Get("Server-Timing"), ", step-")
		want := regexp.MustCompile(`^1-add_sub;desc="add_sub:1";start=\d+\.\d{3};dur=\d+\.\d{3}, ` +
			`step-2-add_sub;desc="add_sub:1";start=\d+\.\d{3};dur=\d+\.\d{3}$`)
		if resp.StatusCode != 200 || !want.MatchString(steps) {
			t.Errorf("status %s, steps %q", resp.Status, steps)
		}
	})
	t.Run("a name that a header cannot hold", func(t *testing.T) {
		r := infer.New()
		defer r.Release()
		r.Times.Arrived = 500
		r.Steps = []infer.StepTimes{{Model: "b", Version: 2, Times: infer.Times{Queued: 2500, Finished: 1502500}},
			{Model: "a \"\\\n漢", Version: 1, Times: infer.Times{Queued: 1500, Finished: 3500}}}
		_, steps, _ := strings.Cut(serverTiming(r), ", step-")
		want := `1-a_______;desc="a \"\\????:1";start=0.001;dur=0.002, step-2-b;desc="b:2";start=0.002;dur=1.500`
		if steps != want {
			t.Errorf("steps %q, want %q", steps, want)
		}
	})
}

// twoSteps is an ensemble that adds, then subtracts from the sum.
const twoSteps = `{"platform":"ensemble","max_batch_size":8,
"input":[{"name":"INPUT0","data_type":"TYPE_INT32","dims":[16]},{"name":"INPUT1","data_type":"TYPE_INT32","dims":[16]}],
"output":[{"name":"OUT","data_type":"TYPE_INT32","dims":[16]}],
"ensemble_scheduling":{"step":[
{"model_name":"add_sub","model_version":-1,"input_map":{"INPUT0":"INPUT0","INPUT1":"INPUT1"},
"output_map":{"OUTPUT0":"sum"}},
{"model_name":"add_sub","model_version":-1,"input_map":{"INPUT0":"sum","INPUT1":"INPUT1"},
"output_map":{"OUTPUT1":"OUT"}}]}}`
