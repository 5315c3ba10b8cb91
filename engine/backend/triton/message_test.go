package triton

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	m := newMessages(&b)
	want := agentCall{Load: 3, Folder: []byte("/a/\xff"), Parameters: map[string]string{"k": "ü"}}
	if err := errors.Join(m.send(want, []byte("data")), m.send(libraryReply{Code: -1}, nil)); err != nil {
		t.Fatal(err)
	}
	var call agentCall
	var reply libraryReply
	data, err := m.receive(&call)
	if err != nil || string(data) != "data" || call.Load != 3 || string(call.Folder) != "/a/\xff" ||
		call.Parameters["k"] != "ü" {
		t.Errorf("%+v, %q, %v", call, data, err)
	}
	if data, err := m.receive(&reply); err != nil || len(data) != 0 || reply.Code != -1 {
		t.Errorf("%+v, %q, %v", reply, data, err)
	}
	if _, err := m.receive(&reply); !errors.Is(err, io.EOF) {
		t.Errorf("after the last message: %v", err)
	}
}

// FuzzMessages: no bytes of a process make the server panic, or take memory that did not come.
func FuzzMessages(f *testing.F) {
	var b bytes.Buffer
	m := newMessages(&b)
	if err := m.send(libraryReply{Code: 5, Text: "no"}, []byte("data")); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("\x02\x00\x00\x00\xff\xff\xff\x7f{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMessages(bytes.NewBuffer(b))
		for range 10 {
			var reply libraryReply
			data, err := m.receive(&reply)
			if len(data) > len(b) {
				t.Fatalf("%d bytes of data in %d bytes", len(data), len(b))
			}
			if err != nil {
				return
			}
		}
	})
}
