package httpapi

import (
	"math"

	"nereid/engine"
	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/infer"
	"nereid/engine/status"
	"nereid/engine/trace"
)

// traceSettings and logSettings: GET reads, POST changes what the body names. Both answer with all settings.

func traceSettings(s *Server, x *exchange) error {
	return s.withBody(x, func(body []byte) error {
		if s.opt.Trace == nil {
			return status.New(status.Unavailable, "the server does not support tracing")
		}
		model, err := unescape(x.route.model)
		if err != nil {
			return err
		}
		if model != "" {
			if ready, err := s.opt.Engine.ModelReady(model, infer.LatestVersion); err != nil || !ready {
				return status.New(status.InvalidArg, "Request for unknown model : "+tensorjson.Printable(model))
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
		fields := []any{}
		for _, v := range s.opt.Trace.List(model) {
			if v.Name == traceLevel {
				fields = append(fields, v.Name, v.Values)
			} else {
				fields = append(fields, v.Name, v.Values[0])
			}
		}
		x.json(tensorjson.Object(fields...))
		return nil
	})
}

// traceLevel is the trace setting that is a list.
const traceLevel = "trace_level"

// parseTraceUpdate reads an object of settings; null clears one.
func parseTraceUpdate(body []byte) (trace.Update, error) {
	var u trace.Update
	err := tensorjson.ReadObject(body, func(s *tensorjson.Scanner, key []byte) error {
		name := string(key)
		values, err := settingValues(s, name == traceLevel)
		if err != nil {
			return err
		}
		if values != nil && len(values) == 0 { // [] means nothing
			return nil
		}
		return u.Put(name, values)
	})
	return u, err
}

// settingValues reads null as nil, a string, or an array of strings if the setting is a list.
func settingValues(s *tensorjson.Scanner, list bool) ([]string, error) {
	if s.Peek() == 'n' {
		return nil, s.Skip()
	}
	values := []string{}
	read := func() error {
		v, err := s.String()
		values = append(values, v)
		return err
	}
	var err error
	if list {
		err = s.Array(read)
	} else {
		err = read()
	}
	return values, err
}

func logSettings(s *Server, x *exchange) error {
	return s.withBody(x, func(body []byte) error {
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
		v := s.opt.LogControl.LogSettings()
		x.json(tensorjson.Object("log_file", v.File, "log_info", v.Info, "log_warning", v.Warning, "log_error", v.Error,
			"log_verbose_level", uint64(v.Verbose), "log_format", v.Format))
		return nil
	})
}

// parseLogUpdate reads an object of settings; null changes nothing.
func parseLogUpdate(body []byte) (engine.LogUpdate, error) {
	var u engine.LogUpdate
	err := tensorjson.ReadObject(body, func(s *tensorjson.Scanner, key []byte) error {
		null := s.Peek() == 'n'
		switch name := string(key); name {
		case "log_file", "log_info", "log_warning", "log_error", "log_verbose_level", "log_format":
			if null {
				return s.Skip()
			}
			return parseLogSetting(s, name, &u)
		}
		return status.New(status.InvalidArg, "unknown log setting '"+tensorjson.Printable(key)+
			"'; known are log_info, log_warning, log_error, log_verbose_level, log_format")
	})
	return u, err
}

func parseLogSetting(s *tensorjson.Scanner, name string, u *engine.LogUpdate) error {
	switch name {
	case "log_file":
		return status.New(status.Unsupported, "log file location can not be updated through network protocol")
	case "log_verbose_level":
		v, err := s.Unsigned()
		if err == nil && v > math.MaxInt32 {
			err = tensorjson.ErrNotUnsigned
		}
		level := uint32(v) //nolint:gosec // checked
		u.Verbose = &level
		return err
	case "log_format":
		format, err := s.String()
		if err == nil && !engine.LogFormat(format) {
			err = status.New(status.InvalidArg, "invalid argument for --log_format, got: "+tensorjson.Printable(format))
		}
		u.Format = &format
		return err
	}
	on, err := s.Bool()
	switch name {
	case "log_info":
		u.Info = &on
	case "log_warning":
		u.Warning = &on
	case "log_error":
		u.Error = &on
	}
	return err
}
