package client

import (
	"math"
	"testing"

	"nereid/engine/inferencepb"
)

// IDs and priorities are the same numbers over both protocols, also those above the largest int64.
func TestLargeSequenceIDsAndPrioritiesStayNumbers_F050(t *testing.T) {
	for _, n := range []uint64{1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		m, err := EncodeGRPC(&Request{Priority: n, Sequence: Sequence{ID: n}})
		if err != nil {
			t.Fatal(err)
		}
		id, isInt := m.Parameters["sequence_id"].GetParameterChoice().(*inferencepb.InferParameter_Int64Param)
		if !isInt || uint64(id.Int64Param) != n {
			t.Errorf("the ID %d is sent as %v", n, m.Parameters["sequence_id"])
		}
		p := m.Parameters["priority"]
		if _, ok := p.GetParameterChoice().(*inferencepb.InferParameter_Uint64Param); ok != (n > math.MaxInt64) ||
			uint64(p.GetInt64Param())+p.GetUint64Param() != n {
			t.Errorf("the priority %d is sent as %v", n, p)
		}
	}
}

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
