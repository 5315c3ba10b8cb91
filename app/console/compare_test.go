package console_test

import (
	"encoding/base64"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

func TestVersionsAreCompared(t *testing.T) {
	r := serving(t, nil)
	r.Write("pair/config.pbtxt", "version_policy { all {} }")
	r.Write("pair/1/model.onnx", "good")
	r.Write("pair/2/model.onnx", "good shifted")
	if err := r.Engine.Reload(t.Context(), "pair"); err != nil {
		t.Fatal(err)
	}
	const request = `{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[2,4],"data":[0.5,2,3,4,4,3,2,1]}]}`
	got := get[api.Comparison](r, 200, "POST", "/api/compare/pair/versions/1/with/2?repeat=3",
		strings.NewReader(request))
	want := api.List[api.OutputDifference]{{Name: "OUTPUT0", DataType: "FP32", Elements: 8, Differing: 1, MaxAbs: 0.5,
		MaxRel: 0.5, TopK: api.List[api.TopK]{{K: 1, Rows: 2, Same: 2}}}}
	if !reflect.DeepEqual(got.Outputs, want) {
		t.Errorf("outputs = %+v, want %+v", got.Outputs, want)
	}
	for v, reply := range map[string]api.ComparedReply{"1": got.Reference, "2": got.Candidate} {
		body, err := base64.StdEncoding.DecodeString(reply.Body)
		if reply.Version != v || reply.Status != http.StatusOK || reply.Error != "" || reply.Ms <= 0 ||
			!strings.Contains(reply.Timing, "dur=") || err != nil ||
			!strings.Contains(string(body), `"model_version":"`+v+`"`) {
			t.Errorf("the reply of version %s is %+v %s", v, reply, body)
		}
	}
	got = get[api.Comparison](r, 200, "POST", "/api/compare/pair/versions/1/with/3", strings.NewReader(request))
	if got.Candidate.Status != http.StatusNotFound || !strings.Contains(got.Candidate.Error, "version 3") ||
		got.Reference.Status != http.StatusOK || len(got.Outputs) != 0 {
		t.Errorf("with a version that is not there: %+v", got)
	}
	const calls = "/api/compare/pair/versions/1/with/2?repeat="
	get[api.Error](r, 400, "POST", calls+"0", strings.NewReader(request))
	get[api.Error](r, 400, "POST", calls+"51", strings.NewReader(request))
	off := newRig(t, engine.ModeExplicit)
	get[api.Error](off, 503, "POST", "/api/compare/ready/versions/1/with/1", strings.NewReader(request))
}
