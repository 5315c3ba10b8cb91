package client

import (
	"testing"

	"nereid/engine/inferencepb"
)

// A decoupled model may answer with an error and go on.
func TestFinalOfStreamedResponses_F050(t *testing.T) {
	for _, tt := range []struct {
		name, err string
		flag      any // of triton_final_response; nil: missing
		final     bool
	}{
		{name: "response that others follow", flag: false},
		{name: "last response", flag: true, final: true},
		{name: "response of an older server"},
		{name: "error that others follow", err: "no", flag: false},
		{name: "last error", err: "no", flag: true, final: true},
		{name: "error of an older server", err: "no", final: true},
	} {
		m := &inferencepb.ModelInferResponse{Id: "x"}
		if tt.flag != nil {
			m.Parameters = pbParameters(map[string]any{"triton_final_response": tt.flag})
		}
		r, err := streamed(&inferencepb.ModelStreamInferResponse{ErrorMessage: tt.err, InferResponse: m})
		if err != nil || r.ID != "x" || r.Final != tt.final || (r.Err != nil) != (tt.err != "") {
			t.Errorf("%s: %+v, %v; want Final = %t", tt.name, r, err, tt.final)
		}
	}
	if r, err := streamed(&inferencepb.ModelStreamInferResponse{ErrorMessage: "no"}); err != nil || !r.Final {
		t.Errorf("error without a response: %+v, %v; want Final", r, err)
	}
}
