package httpapi

import (
	"bytes"
	"strings"

	"nereid/engine/infer"
)

// forward makes parameters of the request's headers that the pattern of Options.ForwardHeaders finds itself in, by their
// names as sent. A parameter of the same name in the body gives way. Errors: InvalidArg for a name that the protocol
// keeps for itself.
func (s *Server) forward(x *exchange, r *infer.Request) error {
	if s.opt.ForwardHeaders == nil {
		return nil
	}
	for line := range bytes.SplitSeq(x.rawHeaders, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !s.opt.ForwardHeaders.Match(name) {
			continue
		}
		if err := r.SetForwarded(string(name), strings.Trim(string(value), " \t")); err != nil {
			return err
		}
	}
	return nil
}
