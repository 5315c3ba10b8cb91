package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nereid/engine/client"
)

// sharedRegion is a system shared memory region that the server knows. Each worker has a part of it: its inputs, then
// its outputs, which are as large as the inputs.
type sharedRegion struct {
	server     *client.HTTP
	name, path string
	mem        []byte
}

// newSharedRegion makes a region and registers it over HTTP.
func newSharedRegion(ctx context.Context, addr string, size int) (*sharedRegion, error) {
	server, err := client.NewHTTP("http://"+addr, client.HTTPOptions{})
	if err != nil {
		return nil, err
	}
	name := "nereid-loadgen-" + strconv.Itoa(os.Getpid())
	r := &sharedRegion{server: server, name: name, path: filepath.Join("/dev/shm", name)}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	if err = f.Truncate(int64(size)); err == nil {
		r.mem, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err == nil {
		err = server.RegisterMemory(ctx, name, "/"+name, 0, uint64(size))
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(r.path))
	}
	return r, nil
}

// close unregisters and removes the region.
func (r *sharedRegion) close() {
	if err := r.server.UnregisterMemory(context.Background(), r.name); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
	}
	_ = unix.Munmap(r.mem) // fails only for memory that was never mapped
	_ = os.Remove(r.path)
}

// sharedSender sends a request whose tensors lie in a region. The outputs are read from there.
type sharedSender struct {
	*httpSender
	outputs [][]byte
	check   bool // the outputs are read: clear them first, so that old ones are not taken for new ones
}

func (s *sharedSender) exchange(ctx context.Context) ([]byte, error) {
	if s.check {
		for _, o := range s.outputs {
			clear(o)
		}
	}
	return s.httpSender.exchange(ctx)
}

func (s *sharedSender) decode(body []byte) (*client.Response, error) {
	r, err := s.httpSender.decode(body)
	if err != nil {
		return nil, err
	}
	for i := range min(len(r.Outputs), len(s.outputs)) {
		r.Outputs[i].Data = s.outputs[i]
	}
	return r, nil
}

// sender returns the sender of worker i, with its inputs written.
func (r *sharedRegion) sender(i int, o *options, in []client.Tensor, deadline time.Time) (*sharedSender, error) {
	names := strings.Split(o.outputs, ";")
	if len(names) != len(in) {
		return nil, fmt.Errorf("-shm names %d outputs for %d inputs", len(names), len(in))
	}
	at := i * 2 * sizeOf(in)
	place := func(n int) (*client.Memory, []byte) {
		m := &client.Memory{Region: r.name, Offset: int64(at), ByteSize: int64(n)}
		at += n
		return m, r.mem[at-n : at]
	}
	request := &client.Request{Model: o.model}
	for _, t := range in {
		data := t.Data
		var mem []byte
		t.Memory, mem = place(len(data))
		copy(mem, data)
		request.Inputs = append(request.Inputs, t)
	}
	s := &sharedSender{check: o.check != "none"}
	for j, t := range in {
		memory, mem := place(len(t.Data))
		s.outputs = append(s.outputs, mem)
		request.Outputs = append(request.Outputs, client.Output{Name: names[j], Memory: memory})
	}
	var err error
	s.httpSender, err = newHTTPSender(o, request, deadline)
	return s, err
}
