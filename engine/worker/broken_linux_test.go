//go:build linux

package worker

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"nereid/engine/infer"
)

// broken is the environment variable by which the test program is a worker whose last response to a stream cannot be read.
const broken = "NEREID_TEST_BROKEN"

func beBroken() {
	greet()
	exec, ticket := listen()
	speak(header{kind: kindResponses, flags: flagDone, id: exec}, make([]byte, 16)) // the execution is over, the stream is not
	const parameters = "[]"                                                         // and are to be an object
	body := binary.LittleEndian.AppendUint32(nil, 1)
	body = append(body, make([]byte, 12)...)
	body = binary.LittleEndian.AppendUint32(body, 40)
	body = binary.LittleEndian.AppendUint32(body, responseFinal)
	body = binary.LittleEndian.AppendUint64(body, ticket)
	body = append(body, make([]byte, 8)...)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(parameters)))
	body = append(body, 0, 0, 0, 0)
	body = append(body, parameters...)
	body = append(body, make([]byte, 6)...)
	speak(header{kind: kindResponses}, body)
	_, _ = unix.Read(controlFD, make([]byte, 1)) // until the server ends it
	os.Exit(0)
}

// A final response that the server cannot read is an error of the request, not the end of it without an answer.
func TestBrokenLastResponse(t *testing.T) {
	if os.Getenv(broken) != "" {
		beBroken()
	}
	l := NewLauncher(nil)
	defer l.Close()
	w, err := l.Start(t.Context(), Spec{
		Name: "m_0", ModelName: "m", Command: []string{os.Args[0], "-test.run=^TestBrokenLastResponse$"}, Env: []string{broken + "=1"}, Decoupled: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(100)
	b := infer.NewBatch()
	b.Requests = append(b.Requests, r.Retain())
	if err := w.Execute(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	<-w.Done()
	t.Log(w.Err())
	resp := r.Poll()
	if resp == nil || !resp.Final || resp.Err == nil {
		t.Fatalf("the request has the response %+v, want a final one with an error", resp)
	}
	resp.Release()
	r.Release()
	w.Kill()
}
