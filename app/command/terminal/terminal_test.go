package terminal

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nereid/engine/client"
	"nereid/engine/tensor"
)

// FuzzNPY: no bytes make the decoder panic, and what it accepts has as many elements as its shape says. Numbers are
// the same after encoding and decoding.
func FuzzNPY(f *testing.F) {
	for _, t := range []client.Tensor{client.Of("x", []float32{1, 2, 3, 4}, 2, 2), client.Of("x", []bool{true}),
		client.Of("x", []int64{}, 0, 3)} {
		b, err := encodeNPY(&t)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x93NUMPY\x01\x00\x3b\x00{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }  \n" +
		"a\x00\x00\x00b\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := decodeNPY(b)
		if err != nil {
			return
		}
		n, err := tensor.Elements(x.Shape)
		if err != nil {
			t.Fatal(err)
		}
		if x.DataType == tensor.Bytes {
			if err := tensor.CheckBytes(x.Data, n); err != nil {
				t.Fatal(err)
			}
			return
		}
		if int64(len(x.Data)) != n*int64(x.DataType.Size()) {
			t.Fatalf("%d bytes for %d elements of %v", len(x.Data), n, x.DataType)
		}
		again, err := encodeNPY(&x)
		if err != nil {
			t.Fatal(err)
		}
		y, err := decodeNPY(again)
		if err != nil || y.DataType != x.DataType || !bytes.Equal(y.Data, x.Data) {
			t.Fatalf("%v after encoding: %v, want %v", y, err, x)
		}
	})
}

func TestFitFillsTheShapeOfTheModel(t *testing.T) {
	for _, tt := range []struct{ natural, model, want []int64 }{
		{[]int64{4}, []int64{-1, 4}, []int64{1, 4}},
		{[]int64{8}, []int64{-1, 4}, []int64{2, 4}},
		{[]int64{2, 4}, []int64{-1, 4}, []int64{2, 4}},
		{[]int64{3}, []int64{-1, -1}, []int64{1, 3}},
		{[]int64{1}, []int64{}, []int64{}},
		{[]int64{6}, []int64{2, 3}, []int64{2, 3}},
		{[]int64{5}, []int64{2, 3}, nil},
		{[]int64{0}, []int64{-1, 4}, []int64{0, 4}},
		{[]int64{4}, []int64{0, -1}, nil},
	} {
		n, err := tensor.Elements(tt.natural)
		if err != nil {
			t.Fatal(err)
		}
		got := fit(tt.natural, n, tt.model)
		if (got == nil) != (tt.want == nil) || tensor.FormatShape(got) != tensor.FormatShape(tt.want) {
			t.Errorf("%v for a model of %v: %v, want %v", tt.natural, tt.model, got, tt.want)
		}
	}
}

func TestBrief(t *testing.T) {
	values := []any{int64(5), uint64(1234567890), float32(1.5), 0.123456789, true, "a"}
	if got, want := brief(values), "5 1234567890 1.5 0.123457 true a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An error of a model may have the words with which servers refuse requests to decoupled models.
func TestARequestIsSentOnceIfTheConfigurationIsTold_F049(t *testing.T) {
	for _, told := range []bool{true, false} {
		sent := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/config"):
				sent++
				w.WriteHeader(http.StatusInternalServerError)
				io.WriteString(w, `{"error":"the other model has a decoupled transaction policy"}`)
			case told:
				io.WriteString(w, `{"name":"m"}`)
			default:
				w.WriteHeader(http.StatusForbidden)
			}
		}))
		defer server.Close()
		c, err := client.NewHTTP(server.URL, client.HTTPOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := &session{client: c}
		resp, err := s.inferOnce(t.Context(), c, &client.Request{Model: "m"})
		if resp != nil || (err != nil) != told || sent != 1 {
			t.Errorf("told %t: %v, %v after %d requests", told, resp, err, sent)
		}
	}
}
