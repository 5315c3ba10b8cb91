package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sharedRegion is a system shared memory region that the server knows. Each worker has a part of it: its inputs, then its
// outputs, which are as large as the inputs.
type sharedRegion struct {
	addr, name, path string
	mem              []byte
}

// newSharedRegion makes a region and registers it over HTTP.
func newSharedRegion(ctx context.Context, addr string, size int) (*sharedRegion, error) {
	name := "nereid-loadgen-" + strconv.Itoa(os.Getpid())
	r := &sharedRegion{addr: addr, name: name, path: filepath.Join("/dev/shm", name)}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	if err = f.Truncate(int64(size)); err == nil {
		r.mem, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	if err == nil {
		err = r.call(ctx, "register", map[string]any{"key": "/" + name, "offset": 0, "byte_size": size})
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(r.path))
	}
	return r, nil
}

func (r *sharedRegion) call(ctx context.Context, verb string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("http://%s/v2/systemsharedmemory/region/%s/%s", r.addr, r.name, verb)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // better without than not at all
		return fmt.Errorf("%s of a shared memory region: status %d: %s", verb, resp.StatusCode, said)
	}
	return nil
}

// close unregisters and removes the region.
func (r *sharedRegion) close() {
	if err := r.call(context.Background(), "unregister", struct{}{}); err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
	}
	_ = unix.Munmap(r.mem) // fails only for what was never mapped
	_ = os.Remove(r.path)
}

// sharedLane sends a request whose tensors lie in a region. Outputs are read from there.
type sharedLane struct {
	httpLane
	outputs [][]byte
	check   bool // the outputs are looked at: old ones must not be taken for new ones
}

func (l *sharedLane) exchange(ctx context.Context) (answer, error) {
	if l.check {
		for _, o := range l.outputs {
			clear(o)
		}
	}
	a, err := l.httpLane.exchange(ctx)
	a.shared = l.outputs
	return a, err
}

// lane returns that of worker i, with its inputs written; names are the outputs', one for each input.
func (r *sharedRegion) lane(i int, o options, in []tensor, names []string) (*sharedLane, error) {
	if len(names) != len(in) {
		return nil, fmt.Errorf("-shm names %d outputs for %d inputs", len(names), len(in))
	}
	type parameters struct {
		Region string `json:"shared_memory_region"`
		Offset int    `json:"shared_memory_offset"`
		Size   int    `json:"shared_memory_byte_size"`
	}
	type tensorEntry struct {
		Name       string     `json:"name"`
		Shape      []int64    `json:"shape,omitempty"`
		Datatype   string     `json:"datatype,omitempty"`
		Parameters parameters `json:"parameters"`
	}
	var body struct {
		Inputs  []tensorEntry `json:"inputs"`
		Outputs []tensorEntry `json:"outputs"`
	}
	l := &sharedLane{httpLane: httpLane{addr: o.addr}, check: o.check != "none"}
	at := i * 2 * bytesOf(in)
	for _, t := range in {
		body.Inputs = append(body.Inputs, tensorEntry{t.name, t.shape, t.dtype, parameters{r.name, at, len(t.raw)}})
		at += copy(r.mem[at:], t.raw)
	}
	for j, t := range in {
		body.Outputs = append(body.Outputs, tensorEntry{Name: names[j], Parameters: parameters{r.name, at, len(t.raw)}})
		l.outputs = append(l.outputs, r.mem[at:at+len(t.raw)])
		at += len(t.raw)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	l.request = append(fmt.Appendf(nil, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		o.model, o.addr, len(text)), text...)
	return l, nil
}

func bytesOf(in []tensor) int {
	n := 0
	for _, t := range in {
		n += len(t.raw)
	}
	return n
}

// sharedLanes is lanes with tensors in system shared memory.
func sharedLanes(ctx context.Context, o options) (newLane func(i int, in []tensor) (lane, error), closeAll func(), err error) {
	if o.proto != "http" {
		return nil, nil, fmt.Errorf("-shm with -i %s: want -i http", o.proto)
	}
	in, err := parseTensors(o.tensors, 0)
	if err != nil {
		return nil, nil, err
	}
	r, err := newSharedRegion(ctx, o.addr, 2*bytesOf(in)*o.clients)
	if err != nil {
		return nil, nil, err
	}
	deadline := time.Now().Add(o.warm + o.window + time.Minute)
	newLane = func(i int, in []tensor) (lane, error) {
		l, err := r.lane(i, o, in, strings.Split(o.outputs, ";"))
		if err != nil {
			return nil, err
		}
		l.deadline = deadline
		return l, nil
	}
	return newLane, r.close, nil
}
