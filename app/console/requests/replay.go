package requests

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"

	"nereid/app/capture"
	"nereid/app/console/api"
	"nereid/app/console/inference"
	"nereid/app/console/rest"
	"nereid/engine/client"
	"nereid/engine/tensor"
)

const (
	maxReplays     = 100 // requests that are sent again at once
	defaultReplays = 10
)

// Replay sends a kept request to a version again and compares the answers.
func (h *Handler) Replay(r *http.Request, req *api.ReplayRequest) (out api.Replay, err error) {
	c, err := h.contents(r)
	if err != nil {
		return out, err
	}
	to, err := h.target(c.Model, req.Version)
	if err != nil {
		return out, err
	}
	if err := replayable(&c); err != nil {
		return out, err
	}
	return h.replay(r, &c, to, true)
}

// ReplayLast sends the newest kept requests of a model to a version again, one after the other.
func (h *Handler) ReplayLast(r *http.Request, req *api.ReplayRequests) (out api.Replays, err error) {
	if err := h.checkCapture(r); err != nil {
		return out, err
	}
	name, count := r.PathValue("name"), cmp.Or(req.Count, defaultReplays)
	if count < 1 || count > maxReplays {
		return out, rest.Errorf(api.CodeInvalid, "%d requests cannot be sent again at once; use 1 to %d", count,
			maxReplays)
	}
	to, err := h.target(name, req.Version)
	if err != nil {
		return out, err
	}
	ids, err := h.Capture.Last(name, count)
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		c, err := h.Capture.Contents(name, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		} else if err != nil {
			return out, err
		}
		one := newReplay(&c)
		if why := replayable(&c); why != nil {
			one.WhyNot = why.Error()
		} else if one, err = h.replay(r, &c, to, false); err != nil {
			return out, err
		}
		out.Replays = append(out.Replays, one)
	}
	return out, nil
}

// target is the version to which kept requests are sent.
type target struct {
	version   string // empty: the newest
	decoupled bool
}

// target returns an error if the version is not loaded.
func (h *Handler) target(model, version string) (to target, err error) {
	m, err := h.Catalog.Find(model)
	if err != nil {
		return to, err
	}
	v, err := m.ReadyVersion(version)
	if err != nil {
		return to, err
	}
	return target{version, v.Model.Decoupled()}, nil
}

// replayable returns why a request cannot be sent again.
func replayable(c *capture.Contents) error {
	if c.Sequence {
		return rest.Errorf(api.CodeInvalid,
			"request %d cannot be sent again: it is part of a sequence, whose state is not kept", c.ID)
	}
	what, why := "", ""
	for i := range c.Inputs {
		if t := &c.Inputs[i]; t.LeftOut != "" {
			what, why = "input "+rest.Quote(t.Name), t.LeftOut
		}
	}
	for i := range c.Parameters {
		if p := &c.Parameters[i]; p.LeftOut != "" {
			what, why = "parameter "+rest.Quote(p.Name), p.LeftOut
		}
	}
	switch why {
	case "":
		return nil
	case capture.BySize:
		return rest.Errorf(api.CodeInvalid, "request %d cannot be sent again: %s was too large to be kept", c.ID, what)
	case capture.OnGPU:
		return rest.Errorf(api.CodeInvalid,
			"request %d cannot be sent again: %s was in the memory of a GPU and is not kept", c.ID, what)
	}
	return rest.Errorf(api.CodeInvalid, "request %d cannot be sent again: a rule left out %s", c.ID, what)
}

// newReplay is what a replay has of the request. An older program wrote no time: then the ID is about the time.
func newReplay(c *capture.Contents) api.Replay {
	return api.Replay{ID: c.ID, TMs: float64(cmp.Or(c.TimeUS, c.ID)) / 1000}
}

// replay sends a request that is replayable.
func (h *Handler) replay(r *http.Request, c *capture.Contents, to target, outputs bool) (out api.Replay,
	err error) {
	req := &client.Request{Model: c.Model, Version: to.version, Parameters: map[string]any{}}
	for _, t := range tensorsOf(c.Inputs) {
		req.Inputs = append(req.Inputs, client.Tensor{Name: t.Name, DataType: t.DataType, Shape: t.Shape, Data: t.Data})
	}
	for _, p := range c.Parameters {
		if req.Parameters[p.Name], err = parameterOf(p.Value); err != nil {
			return out, fmt.Errorf("parameter %s: %w", rest.Quote(p.Name), err)
		}
	}
	answer, done, err := h.Comparer.Replay(r.Context(), req, to.decoupled)
	out = newReplay(c)
	out.Version = to.version
	var refused *rest.Error
	if errors.As(err, &refused) && refused.Code == api.CodeTooLarge {
		out.Error = refused.Error() // the answer is a stream, or has too many bytes
		return out, nil
	} else if err != nil {
		return out, err
	}
	defer done()
	out.Version, out.Status, out.Error = cmp.Or(answer.Version, to.version), answer.Status, answer.Error
	out.Ms = float64(answer.Took.Nanoseconds()) / 1e6
	if outputs {
		out.Outputs = newOutputs(answer.Outputs)
	}
	if answer.Error == "" {
		out.Differences = differencesOf(c.Outputs, answer.Outputs)
		out.Compared, out.Same = verdict(c.Outputs, out.Differences)
	}
	return out, nil
}

// verdict says whether outputs of the kept answer were compared, and whether these are equal.
func verdict(kept []capture.Tensor, differences []api.OutputDifference) (compared, same bool) {
	same = true
	for i, d := range differences {
		if kept[i].LeftOut == "" {
			compared = true
			same = same && d.Reason == "" && d.Differing == 0
		}
	}
	return compared, compared && same
}

// reasons say why an output is left out.
var reasons = map[string]string{capture.ByRule: "a rule left it out", capture.BySize: "it was too large to be kept",
	capture.OnGPU: "it was in the memory of a GPU"}

// differencesOf compares the outputs of a kept answer with those of a new one.
func differencesOf(kept []capture.Tensor, answer []tensor.Tensor) (out api.List[api.OutputDifference]) {
	for i, t := range kept {
		if t.LeftOut != "" {
			out = append(out, api.OutputDifference{Name: t.Name, DataType: t.DataType,
				Reason: "the kept answer is without this output: " + reasons[t.LeftOut]})
			continue
		}
		at := slices.IndexFunc(answer, func(a tensor.Tensor) bool { return a.Name == t.Name })
		out = append(out, inference.Differences(tensorsOf(kept[i:i+1]), answer[max(0, at):at+1])...)
	}
	return out
}

func tensorsOf(all []capture.Tensor) (out []tensor.Tensor) {
	for _, t := range all {
		out = append(out, tensor.Tensor{Name: t.Name, DataType: tensor.ParseDataType(t.DataType), Shape: t.Shape,
			Data: t.Data})
	}
	return out
}

// newOutputs are the outputs of an answer. Content beyond the bytes that may be kept of a request is left out.
func newOutputs(all []tensor.Tensor) (out api.List[api.CapturedTensor]) {
	size := 0
	for _, t := range all {
		o := api.CapturedTensor{Name: t.Name, DataType: t.DataType.String(), Shape: t.Shape}
		if size+len(t.Data) > capture.MaxBytes {
			o.LeftOut = capture.BySize
		} else {
			size += len(t.Data)
			o.Data = base64.StdEncoding.EncodeToString(t.Data)
		}
		out = append(out, o)
	}
	return out
}

// parameterOf returns the value of a parameter as clients send it. Numbers are exact.
func parameterOf(v any) (any, error) {
	n, ok := v.(json.Number)
	if !ok {
		return v, nil
	}
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	return n.Float64()
}
