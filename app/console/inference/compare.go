package inference

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/client"
	"nereid/engine/compare"
	"nereid/engine/tensor"
)

const (
	maxCompared = 64 << 20 // bytes of a request that is compared, and of each reply
	maxRepeat   = 50
)

// comparedK are the K of the highest elements that are compared.
var comparedK = []int{1, 5}

// Comparer sends one request to two versions of a model. Like the Proxy's, its requests take the way of other clients.
type Comparer struct {
	server Server
	client *http.Client
	memory *tensor.Budget // counts the request and the replies
}

// NewComparer makes a Comparer.
func NewComparer(s Server, memory *tensor.Budget) *Comparer {
	c := &Comparer{server: s, memory: memory}
	if s.Dial != nil {
		c.client = &http.Client{Transport: s.Transport(2)}
	}
	return c
}

// Compare sends the body, an inference request of the protocol, to both versions, one after the other, as often as the
// query's repeat says, and compares the last replies.
func (c *Comparer) Compare(r *http.Request) (out api.Comparison, err error) {
	repeat, err := rest.Number(r.URL.Query(), "repeat", 1, 1, maxRepeat)
	if err != nil {
		return out, err
	}
	if c.client == nil {
		return out, rest.Errorf(api.CodeUnavailable,
			"the inference server over HTTP is turned off; start without --allow-http=false to try models here")
	}
	if r.ContentLength < 0 || r.ContentLength > maxCompared {
		return out, rest.Errorf(api.CodeTooLarge,
			"the request must have a Content-Length of at most %d bytes", maxCompared)
	}
	if err := c.memory.Take(r.ContentLength, 0); err != nil {
		return out, err
	}
	defer c.memory.Give(r.ContentLength)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return out, rest.Errorf(api.CodeInvalid, "the request cannot be read: %v", err)
	}
	m := message{model: r.PathValue("name"), body: body, header: http.Header{}}
	for _, name := range []string{"Content-Type", client.HeaderLength} {
		if v := r.Header.Get(name); v != "" {
			m.header.Set(name, v)
		}
	}
	sides := [2]side{{version: r.PathValue("version")}, {version: r.PathValue("other")}}
	defer func() {
		for i := range sides {
			sides[i].drop(c.memory)
		}
	}()
	for range repeat {
		for i := range sides {
			if err := c.send(r.Context(), &m, &sides[i]); err != nil {
				return out, err
			}
		}
	}
	out.Reference, out.Candidate = sides[0].reply(), sides[1].reply()
	if out.Reference.Error == "" && out.Candidate.Error == "" {
		out.Outputs = Differences(sides[0].tensors, sides[1].tensors)
	}
	return out, nil
}

// message is a request of the protocol.
type message struct {
	model  string
	body   []byte
	header http.Header
	events bool // the reply is a stream of events, each with a response
}

// side is one version of a comparison.
type side struct {
	version string
	took    []time.Duration
	status  int
	failure string
	header  http.Header
	body    []byte
	served  string // the version that answered
	taken   int64  // of the budget
	tensors []tensor.Tensor
}

func (s *side) drop(memory *tensor.Budget) {
	memory.Give(s.taken)
	s.taken, s.body = 0, nil
}

// send sends one request to one version and keeps the reply in place of the one before.
func (c *Comparer) send(ctx context.Context, m *message, s *side) error {
	s.drop(c.memory)
	s.failure, s.tensors = "", nil
	u := &url.URL{Scheme: "http", Host: "localhost", Opaque: inferPath(m.model, s.version)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost", bytes.NewReader(m.body))
	if err != nil {
		return err
	}
	req.URL = u
	mark(req.Header, c.server.Header)
	maps.Copy(req.Header, m.header)
	start := time.Now()
	resp, err := c.client.Do(req)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return rest.Errorf(api.CodeUnavailable, "the inference server does not answer: %v", err)
	}
	defer resp.Body.Close()
	if s.status, s.header = resp.StatusCode, resp.Header; m.events && s.status == http.StatusOK {
		err = s.readEvents(resp.Body, c.memory)
	} else {
		err = s.read(resp, c.memory)
	}
	s.took = append(s.took, time.Since(start))
	return err
}

// read reads a reply that is no stream.
func (s *side) read(resp *http.Response, memory *tensor.Budget) (err error) {
	if resp.ContentLength < 0 || resp.ContentLength > maxCompared {
		return rest.Errorf(api.CodeTooLarge,
			"version %s streams its reply, or it has more than %d bytes; such replies are not compared",
			s.version, maxCompared)
	}
	if err := memory.Take(resp.ContentLength, 0); err != nil {
		return err
	}
	s.taken = resp.ContentLength
	if s.body, err = io.ReadAll(resp.Body); err != nil {
		return rest.Errorf(api.CodeUnavailable, "the inference server does not answer: %v", err)
	}
	s.decode()
	return nil
}

// readEvents reads the responses of a stream of events until its end, or until the first error of the model.
func (s *side) readEvents(body io.Reader, memory *tensor.Budget) error {
	for lines := bufio.NewReader(io.LimitReader(body, maxCompared)); s.failure == ""; {
		line, err := lines.ReadBytes('\n')
		if err := memory.Take(int64(len(line)), 0); err != nil {
			return err
		}
		s.taken += int64(len(line))
		switch data, ok := bytes.CutPrefix(line, []byte("data: ")); {
		case err == nil && ok:
			s.body = data
			s.decode()
		case err == io.EOF && s.taken == maxCompared:
			return rest.Errorf(api.CodeTooLarge, "the reply of version %s has more than %d bytes; it is not compared",
				s.version, maxCompared)
		case err == io.EOF:
			return nil
		case err != nil:
			return rest.Errorf(api.CodeUnavailable, "the inference server does not answer: %v", err)
		}
	}
	return nil
}

// decode reads the outputs of the body, or its error. It joins outputs that are there.
func (s *side) decode() {
	if s.status != http.StatusOK || bytes.HasPrefix(s.body, []byte(`{"error":`)) {
		var e struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(s.body, &e) != nil || e.Error == "" {
			e.Error = http.StatusText(s.status)
		}
		s.failure = e.Error
		return
	}
	resp, err := client.DecodeHTTP(nil, s.body, s.header.Get(client.HeaderLength))
	if err != nil {
		s.failure = err.Error()
		return
	}
	s.served = resp.Version
	for i := range resp.Outputs {
		o := &resp.Outputs[i]
		at := slices.IndexFunc(s.tensors, func(t tensor.Tensor) bool { return t.Name == o.Name })
		if at < 0 {
			s.tensors = append(s.tensors,
				tensor.Tensor{Name: o.Name, DataType: o.DataType, Shape: o.Shape, Data: o.Data})
			continue
		}
		t := &s.tensors[at]
		t.Shape, t.Data = tensor.JoinShapes(t.Shape, o.Shape), append(t.Data, o.Data...)
	}
}

func (s *side) reply() api.ComparedReply {
	slices.Sort(s.took)
	return api.ComparedReply{
		Version: s.version, Status: s.status, Error: s.failure,
		Ms:     float64(s.took[len(s.took)/2].Nanoseconds()) / 1e6,
		Timing: s.header.Get("Server-Timing"), JSONLength: s.header.Get(client.HeaderLength),
		Body: base64.StdEncoding.EncodeToString(s.body),
	}
}

// Differences compares the outputs of two replies by name.
func Differences(a, b []tensor.Tensor) (out api.List[api.OutputDifference]) {
	named := func(all []tensor.Tensor, name string) *tensor.Tensor {
		if at := slices.IndexFunc(all, func(t tensor.Tensor) bool { return t.Name == name }); at >= 0 {
			return &all[at]
		}
		return nil
	}
	for i := range a {
		out = append(out, difference(&a[i], named(b, a[i].Name)))
	}
	for i := range b {
		if named(a, b[i].Name) == nil {
			out = append(out, difference(&b[i], nil))
		}
	}
	return out
}

// difference compares an output with that of the other version, which may be nil.
func difference(a, b *tensor.Tensor) api.OutputDifference {
	out := api.OutputDifference{Name: a.Name, DataType: a.DataType.String()}
	if b == nil {
		out.Reason = "only one of the answers has this output"
		return out
	}
	d, err := compare.Tensors(b, a)
	if err != nil {
		out.Reason = err.Error()
		return out
	}
	out.Elements, out.Differing, out.Special = d.Elements, d.Differing, d.Special
	out.MaxAbs, out.At, out.MaxRel = d.MaxAbs, d.At, d.MaxRel
	for _, k := range comparedK {
		if t, ok := compare.TopK(a, b, k); ok {
			out.TopK = append(out.TopK, api.TopK(t))
		}
	}
	return out
}
