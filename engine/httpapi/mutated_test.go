package httpapi

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"

	"nereid/build/corrupt"
	"nereid/engine/infer"
)

// Damaged copies of good bodies, JSON and binary, never make a handler panic or answer with a server error.
func TestA24MutatedBodies(t *testing.T) {
	binary, _ := withBinary(`{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"INT32",`+
		`"parameters":{"binary_data_size":64}},`+
		`{"name":"INPUT1","shape":[1,16],"datatype":"INT32","data":[`+zeroTo15+
		`]}],"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}`, int32s())
	seeds := [][]byte{[]byte(addSubJSON), []byte(binary),
		[]byte(`{"id":"x","parameters":{"priority":1,"timeout":5,"sequence_id":"s","a":1.5},` + addSubJSON[1:])}
	s, err := New(Options{Engine: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(s.conns, nil)
	x := &exchange{conn: c}
	c.x = x
	rng := rand.New(rand.NewPCG(1, 24))
	answers := map[int]int{}
	for range corrupt.Count(30_000, 1_000_000) {
		body := corrupt.Bytes(rng, seeds[rng.IntN(len(seeds))], seeds[rng.IntN(len(seeds))])
		x.reset()
		if rng.IntN(2) == 0 {
			x.headerLength, x.hasHeaderLength = []byte(strconv.Itoa(len(binary)-64+rng.IntN(3)-1)), true
		}
		x.body, x.length = bytes.NewReader(body), int64(len(body))
		if err := s.infer(x, "add_sub", infer.LatestVersion); err != nil {
			x.failWith(typeText, err)
		}
		if x.reply == nil || x.status >= 500 {
			t.Fatalf("%q answers %d", body, x.status)
		}
		answers[x.status]++
		c.reply, x.reply = x.reply, nil
		c.finished()
	}
	t.Logf("answers by status: %v", answers)
	if answers[200] == 0 || answers[400] == 0 {
		t.Error("the damaged bodies are all good or all bad")
	}
}
