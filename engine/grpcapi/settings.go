package grpcapi

import (
	"context"

	"nereid/engine"
	"nereid/engine/infer"
	pb "nereid/engine/inferencepb"
	"nereid/engine/status"
	"nereid/engine/trace"
)

// traceSetting reads or changes the trace settings of a model, or of the server if no model is named.
func (s *Server) traceSetting(_ context.Context, in *pb.TraceSettingRequest) (*pb.TraceSettingResponse, error) {
	if s.trace == nil {
		return nil, status.New(status.Unavailable, "the server does not support trace")
	}
	model := in.GetModelName()
	if model != "" {
		if ready, err := s.engine.ModelReady(model, infer.LatestVersion); err != nil || !ready {
			return nil, status.Errorf(status.InvalidArg, "Request for unknown model : %s", model)
		}
	}
	if len(in.GetSettings()) > 0 {
		var u trace.Update
		for name, v := range in.GetSettings() {
			if err := u.Put(name, v.GetValue()); err != nil {
				return nil, err
			}
		}
		if err := s.trace.Update(model, u); err != nil {
			return nil, err
		}
	}
	out := &pb.TraceSettingResponse{Settings: map[string]*pb.TraceSettingResponse_SettingValue{}}
	for _, v := range s.trace.List(model) {
		out.Settings[v.Name] = &pb.TraceSettingResponse_SettingValue{Value: v.Values}
	}
	return out, nil
}

// logSettings reads or changes the settings of the log.
func (s *Server) logSettings(_ context.Context, in *pb.LogSettingsRequest) (*pb.LogSettingsResponse, error) {
	if s.logControl == nil {
		return nil, status.New(status.Unavailable, "the server does not support dynamic logging")
	}
	if len(in.GetSettings()) > 0 {
		var u engine.LogUpdate
		for name, v := range in.GetSettings() {
			if err := putLog(&u, name, v); err != nil {
				return nil, err
			}
		}
		s.logControl.UpdateLog(u)
	}
	type value = pb.LogSettingsResponse_SettingValue
	flag := func(v bool) *value {
		return &value{ParameterChoice: &pb.LogSettingsResponse_SettingValue_BoolParam{BoolParam: v}}
	}
	text := func(v string) *value {
		return &value{ParameterChoice: &pb.LogSettingsResponse_SettingValue_StringParam{StringParam: v}}
	}
	l := s.logControl.LogSettings()
	return &pb.LogSettingsResponse{Settings: map[string]*value{
		"log_file": text(l.File), "log_info": flag(l.Info), "log_warning": flag(l.Warning), "log_error": flag(l.Error),
		"log_verbose_level": {
			ParameterChoice: &pb.LogSettingsResponse_SettingValue_Uint32Param{Uint32Param: l.Verbose},
		},
		"log_format": text(l.Format),
	}}, nil
}

// putLog adds one setting to the update.
func putLog(u *engine.LogUpdate, name string, v *pb.LogSettingsRequest_SettingValue) error {
	wrong := func(kind string) error {
		return status.Errorf(status.InvalidArg, "expect %s for '%s'", kind, name)
	}
	switch name {
	case "log_file":
		return status.New(status.Unsupported, "log file location can not be updated through network protocol")
	case "log_info", "log_warning", "log_error":
		c, ok := v.GetParameterChoice().(*pb.LogSettingsRequest_SettingValue_BoolParam)
		if !ok {
			return wrong("boolean")
		}
		on := c.BoolParam
		*map[string]**bool{"log_info": &u.Info, "log_warning": &u.Warning, "log_error": &u.Error}[name] = &on
	case "log_verbose_level":
		c, ok := v.GetParameterChoice().(*pb.LogSettingsRequest_SettingValue_Uint32Param)
		if !ok {
			return wrong("int32")
		}
		level := c.Uint32Param
		u.Verbose = &level
	case "log_format":
		c, ok := v.GetParameterChoice().(*pb.LogSettingsRequest_SettingValue_StringParam)
		if !ok {
			return wrong("string")
		}
		if !engine.LogFormat(c.StringParam) {
			return status.Errorf(status.InvalidArg, "invalid argument for log_format, got: %.64q", c.StringParam)
		}
		format := c.StringParam
		u.Format = &format
	default:
		return status.Errorf(status.InvalidArg, "unknown log setting '%.64s'; "+
			"known are log_info, log_warning, log_error, log_verbose_level, log_format", name)
	}
	return nil
}
