package perf

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

func TestExport(t *testing.T) {
	in := []client.Tensor{
		client.Of("ONE", []int32{7}), client.Of("TWO", []int8{1, 2}), client.Of("NAN", []float32{float32(math.NaN())}),
		{Name: "HALF", DataType: tensor.FP16, Shape: []int64{1}, Data: []byte{0, 0x3c}},
		client.Strings("TEXT", []string{"\ufffd"}), client.Strings("BINARY", []string{"ok", "\xff\xfe"}),
	}
	var b bytes.Buffer
	err := WriteExport(&b, []Experiment{{Level: 2, Concurrency: true,
		Records: []Record{{Start: time.Unix(0, 5), Inputs: in}}}}, "v")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Experiments []struct {
			Requests []struct {
				Inputs map[string]any `json:"request_inputs"`
			}
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"ONE": 7.0, "TWO": []any{1.0, 2.0}, "NAN": nil, "HALF": nil, "TEXT": "\ufffd", "BINARY": nil}
	if got := doc.Experiments[0].Requests[0].Inputs; !reflect.DeepEqual(got, want) {
		t.Errorf("F019 exported inputs %v, want %v", got, want)
	}
}
