package requests

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"nereid/app/capture"
	"nereid/app/console/api"
	"nereid/app/console/rest"
	"nereid/app/history"
)

// GetCapture describes the capture of a model.
func (h *Handler) GetCapture(r *http.Request) (out api.Capture, err error) {
	if err := h.checkCapture(r); err != nil {
		return out, err
	}
	return h.stateOf(r.PathValue("name"))
}

func (h *Handler) stateOf(model string) (out api.Capture, err error) {
	s, err := h.Capture.Status(model)
	if err != nil {
		return out, err
	}
	out = api.Capture{On: s.On, MaxBytes: s.MaxBytes, BudgetBytes: s.Budget, LeaveOut: s.LeaveOut,
		Captured: s.Captured, Dropped: s.Dropped, Kept: s.Kept, KeptBytes: s.KeptBytes}
	if !s.Until.IsZero() {
		out.UntilMs = s.Until.UnixMilli()
	}
	return out, nil
}

func (h *Handler) checkCapture(r *http.Request) error {
	if h.Capture == nil {
		return rest.Errorf(api.CodeUnsupported, "contents are captured only where requests are recorded, and where "+
			"models have no namespaces; see --record-requests and --model-namespacing")
	}
	name := r.PathValue("name")
	_, err := h.Catalog.Find(name)
	if err != nil && h.Capture.Knows(name) {
		return nil // its folder was removed by hand
	}
	return err
}

// SetCapture turns the capture of a model on or off.
func (h *Handler) SetCapture(r *http.Request, req *api.SetCapture) (out api.Capture, err error) {
	if err := h.checkCapture(r); err != nil {
		return out, err
	}
	name, text := r.PathValue("name"), "contents of requests are not captured any more"
	var s *capture.Settings
	if req.On {
		if _, err := h.Catalog.Find(name); err != nil {
			return out, err
		}
		text = "contents of requests are captured"
		minutes := max(-1, min(cmp.Or(req.Minutes, 60), 1+int64(capture.MaxTime/time.Minute)))
		now := time.Now()
		s = &capture.Settings{Until: now.Add(time.Duration(minutes) * time.Minute),
			MaxBytes: cmp.Or(req.MaxBytes, 256<<10), Budget: cmp.Or(req.BudgetBytes, 256<<20), LeaveOut: req.LeaveOut}
		if err := s.Check(now); err != nil {
			return out, rest.Errorf(api.CodeInvalid, "%v", err)
		}
	}
	if err := h.Capture.Set(r.Context(), name, s); err != nil {
		return out, err
	}
	h.Recorder.Event(history.Event{Kind: history.Capture, Model: name, Text: text})
	return h.GetCapture(r)
}

// ForgetCapture removes what was captured of a model. If there is no such model any more, its capture ends, too.
func (h *Handler) ForgetCapture(r *http.Request) (out api.Capture, err error) {
	if err := h.checkCapture(r); err != nil {
		return out, err
	}
	name := r.PathValue("name")
	if _, gone := h.Catalog.Find(name); gone != nil {
		err = h.Capture.Drop(r.Context(), name)
	} else {
		err = h.Capture.Forget(name)
	}
	if err != nil {
		return out, err
	}
	h.Recorder.Event(history.Event{Kind: history.Capture, Model: name, Text: "captured contents were removed"})
	return h.stateOf(name)
}

// contents reads what was captured of the request that the path names.
func (h *Handler) contents(r *http.Request) (out capture.Contents, err error) {
	found, err := h.Get(r)
	if err != nil {
		return out, err
	}
	if h.Capture != nil {
		out, err = h.Capture.Contents(found.Request.Model, found.Request.ID)
	}
	if h.Capture == nil || errors.Is(err, fs.ErrNotExist) {
		return out, rest.Errorf(api.CodeNotFound, "the contents of request %d were not captured, or are removed",
			found.Request.ID)
	}
	return out, err
}

// Contents returns what was captured of a request.
func (h *Handler) Contents(r *http.Request) (out api.RequestContents, err error) {
	c, err := h.contents(r)
	if err != nil {
		return out, err
	}
	out.Error, out.ErrorLeftOut = c.Error, c.ErrorLeftOut
	out.Inputs, out.Outputs, out.Responses = apiTensors(c.Inputs), apiTensors(c.Outputs), c.Responses
	for _, p := range c.Parameters {
		value, err := json.Marshal(p.Value)
		if err != nil {
			return out, err
		}
		q := api.CapturedParameter{Name: p.Name, Value: string(value), LeftOut: p.LeftOut}
		if p.LeftOut != "" {
			q.Value = ""
		}
		out.Parameters = append(out.Parameters, q)
	}
	return out, nil
}

func apiTensors(all []capture.Tensor) (out api.List[api.CapturedTensor]) {
	for i := range all {
		t := &all[i]
		out = append(out, api.CapturedTensor{Name: t.Name, DataType: t.DataType, Shape: t.Shape, LeftOut: t.LeftOut,
			Data: base64.StdEncoding.EncodeToString(t.Data)})
	}
	return out
}
