package httpapi

import (
	"math"
	"strconv"

	"nereid/engine"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/trace"
)

// serveSettings answers the trace and the logging extension: GET reads, POST changes what the body names and answers with
// all settings.
func (s *Server) serveSettings(x *exchange) {
	var body []byte
	if x.is("POST") {
		buf, b, err := s.readBody(x, 0)
		if err != nil {
			s.replyBodyError(x, err)
			return
		}
		defer buf.Release()
		body = b
	}
	f := s.traceSettings
	if x.route.endpoint == logSetting {
		f = s.logSettings
	}
	if err := f(x, body); err != nil {
		x.failWith(typeJSON, err)
	}
}

func (s *Server) traceSettings(x *exchange, body []byte) error {
	if s.opt.Trace == nil {
		return status.New(status.Unavailable, "the server does not support tracing")
	}
	model := ""
	if x.route.endpoint == modelTrace {
		name, ok := unescape(x.route.model)
		if !ok {
			return status.New(status.InvalidArg, "the path has a malformed %-escape")
		}
		model = string(name)
		if ready, err := s.opt.Engine.ModelReady(model, infer.LatestVersion); err != nil || !ready {
			return status.New(status.InvalidArg, "Request for unknown model : "+printable(name))
		}
	}
	if x.is("POST") {
		u, err := parseTraceUpdate(body)
		if err == nil {
			err = s.opt.Trace.Update(model, u)
		}
		if err != nil {
			return err
		}
	}
	x.bytes(200, typeJSON, appendTraceSettings(nil, s.opt.Trace.List(model)))
	return nil
}

// parseTraceUpdate reads an object of settings; null clears one.
func parseTraceUpdate(body []byte) (trace.Update, error) {
	var u trace.Update
	err := filledObject(body, func(s *scanner, key []byte) error {
		name := string(key)
		values, err := settingValues(s, name == "trace_level")
		if err != nil {
			return err
		}
		if values != nil && len(values) == 0 { // "[]" says nothing, null clears
			return nil
		}
		return u.Put(name, values)
	})
	return u, err
}

// settingValues reads null as nil, a string, or an array of strings where a setting is a list.
func settingValues(s *scanner, list bool) ([]string, error) {
	if s.peek() == 'n' {
		return nil, s.skip()
	}
	if !list {
		v, err := s.stringValue()
		return []string{v}, err
	}
	if s.peek() != '[' {
		return nil, status.New(status.InvalidArg, nonArray)
	}
	values := []string{}
	for first := true; ; first = false {
		more, err := s.element(first)
		if err != nil || !more {
			return values, err
		}
		v, err := s.stringValue()
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
}

// stringValue reads a value that has to be a string.
func (s *scanner) stringValue() (string, error) {
	if s.peek() != '"' {
		return "", status.New(status.InvalidArg, nonString)
	}
	text, err := s.text()
	return string(text), err
}

func appendTraceSettings(b []byte, list []trace.Setting) []byte {
	b = append(b, '{')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, v.Name)
		b = append(b, ':')
		if v.Name == "trace_level" {
			b = appendStrings(b, v.Values)
		} else {
			b = appendString(b, v.Values[0])
		}
	}
	return append(b, '}')
}

func (s *Server) logSettings(x *exchange, body []byte) error {
	if s.opt.LogControl == nil {
		return status.New(status.Unavailable, "the server does not support dynamic logging")
	}
	if x.is("POST") {
		u, err := parseLogUpdate(body)
		if err != nil {
			return err
		}
		s.opt.LogControl.UpdateLog(u)
	}
	x.bytes(200, typeJSON, appendLogSettings(nil, s.opt.LogControl.LogSettings()))
	return nil
}

// parseLogUpdate reads an object of settings; null leaves one as it is.
func parseLogUpdate(body []byte) (engine.LogUpdate, error) {
	var u engine.LogUpdate
	err := filledObject(body, func(s *scanner, key []byte) error {
		null := s.peek() == 'n'
		switch name := string(key); name {
		case "log_file", "log_info", "log_warning", "log_error", "log_verbose_level", "log_format":
			if null {
				return s.skip()
			}
			return putLog(s, name, &u)
		}
		return status.New(status.InvalidArg, "unknown log setting '"+printable(key)+
			"'; known are log_info, log_warning, log_error, log_verbose_level, log_format")
	})
	return u, err
}

func putLog(s *scanner, name string, u *engine.LogUpdate) error {
	switch name {
	case "log_file":
		return status.New(status.Unsupported, "log file location can not be updated through network protocol")
	case "log_verbose_level":
		n, err := s.number()
		if err != nil {
			return err
		}
		v, ok := n.unsigned()
		if !ok || v > math.MaxInt32 {
			return status.New(status.InvalidArg, nonUnsigned)
		}
		level := uint32(v)
		u.Verbose = &level
		return nil
	case "log_format":
		format, err := s.stringValue()
		if err == nil && !engine.LogFormat(format) {
			err = status.New(status.InvalidArg, "invalid argument for --log_format, got: "+printable([]byte(format)))
		}
		u.Format = &format
		return err
	}
	on, ok := s.boolean()
	if !ok {
		return status.New(status.InvalidArg, nonBoolean)
	}
	switch name {
	case "log_info":
		u.Info = &on
	case "log_warning":
		u.Warning = &on
	case "log_error":
		u.Error = &on
	}
	return nil
}

func appendLogSettings(b []byte, v engine.LogSettings) []byte {
	b = append(b, `{"log_file":`...)
	b = appendString(b, v.File)
	b = append(b, `,"log_info":`...)
	b = strconv.AppendBool(b, v.Info)
	b = append(b, `,"log_warning":`...)
	b = strconv.AppendBool(b, v.Warning)
	b = append(b, `,"log_error":`...)
	b = strconv.AppendBool(b, v.Error)
	b = append(b, `,"log_verbose_level":`...)
	b = strconv.AppendUint(b, uint64(v.Verbose), 10)
	b = append(b, `,"log_format":`...)
	b = appendString(b, v.Format)
	return append(b, '}')
}

// sample decides whether an inference is traced, when its header has come.
func (s *Server) sample(x *exchange, r *infer.Request) {
	if !s.opt.Trace.On() {
		return
	}
	start := infer.Now()
	tr := s.opt.Trace.Sample(r.ModelName, trace.Parent{TraceParent: x.header("Traceparent"), TraceState: x.header("Tracestate")})
	if tr == nil {
		return
	}
	tr.Mark(trace.HTTPRecvStart, start)
	x.conn.trace, r.Trace = tr, tr
}
