package inference

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/engine/client"
	"nereid/engine/tensor"
)

// Answer is the answer to a request that was sent again.
type Answer struct {
	Status  int
	Error   string // of the server
	Version string // that answered
	Took    time.Duration
	Outputs []tensor.Tensor // of all responses; see tensor.JoinShapes
}

// Replay sends a request again; decoupled: the model may answer with several responses. Its record says so, and its
// contents are not captured. The caller calls done when it no longer needs the answer.
func (c *Comparer) Replay(ctx context.Context, r *client.Request, decoupled bool) (out Answer, done func(), err error) {
	if c.client == nil {
		return out, nil, rest.Errorf(api.CodeUnavailable,
			"the inference server over HTTP is turned off; start without --allow-http=false to try models here")
	}
	body, jsonLength, err := client.EncodeHTTP(r, &client.HTTPOptions{JSONOutputs: decoupled})
	if err != nil {
		return out, nil, err
	}
	if err := c.memory.Take(int64(len(body)), 0); err != nil {
		return out, nil, err
	}
	defer c.memory.Give(int64(len(body)))
	m := message{model: r.Model, body: body, events: decoupled, header: http.Header{
		"Content-Type": {"application/octet-stream"}, "Nereid-Page": {"replay"}}}
	if decoupled {
		m.header.Set("Accept", "text/event-stream")
	}
	m.header.Set(client.HeaderLength, strconv.Itoa(jsonLength))
	s := &side{version: r.Version}
	if err := c.send(ctx, &m, s); err != nil {
		s.drop(c.memory)
		return out, nil, err
	}
	return Answer{Status: s.status, Error: s.failure, Version: s.served, Took: s.took[0], Outputs: s.tensors},
		func() { s.drop(c.memory) }, nil
}
