package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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
	httpSender
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

func (s *sharedSender) reply() (reply, error) {
	var head struct {
		Version string `json:"model_version"`
	}
	if err := json.Unmarshal(s.response.Body(), &head); err != nil {
		return reply{}, fmt.Errorf("the response is not JSON: %w", err)
	}
	return reply{head.Version, s.outputs}, nil
}

// sender returns the sender of worker i, with its inputs written.
func (r *sharedRegion) sender(i int, o options, in []tensor) (*sharedSender, error) {
	names := strings.Split(o.outputs, ";")
	if len(names) != len(in) {
		return nil, fmt.Errorf("-shm names %d outputs for %d inputs", len(names), len(in))
	}
	s := &sharedSender{httpSender: httpSender{addr: o.addr, deadline: o.deadline()}, check: o.check != "none"}
	at := i * 2 * sizeOf(in)
	place := func(n int) map[string]any {
		p := map[string]any{
			"shared_memory_region": r.name, "shared_memory_offset": at, "shared_memory_byte_size": n,
		}
		at += n
		return p
	}
	var body inferRequest
	for _, t := range in {
		copy(r.mem[at:], t.raw)
		body.Inputs = append(body.Inputs, inferTensor{Name: t.name, Shape: t.shape, Datatype: t.dtype,
			Parameters: place(len(t.raw))})
	}
	for j, t := range in {
		s.outputs = append(s.outputs, r.mem[at:at+len(t.raw)])
		body.Outputs = append(body.Outputs, inferTensor{Name: names[j], Parameters: place(len(t.raw))})
	}
	var err error
	s.request, err = post(o.addr, o.model, body, nil)
	return s, err
}
