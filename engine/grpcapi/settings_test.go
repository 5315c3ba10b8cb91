package grpcapi

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"nereid/engine"
	"nereid/engine/inferencepb"
	"nereid/engine/trace"
)

// fakeLog is a log whose information messages can be turned off.
type fakeLog struct{ v engine.LogSettings }

func (l *fakeLog) LogSettings() engine.LogSettings { return l.v }

func (l *fakeLog) UpdateLog(u engine.LogUpdate) {
	if u.Info != nil {
		l.v.Info = *u.Info
	}
	if u.Verbose != nil {
		l.v.Verbose = *u.Verbose
	}
	if u.Format != nil {
		l.v.Format = *u.Format
	}
}

func TestTraceSetting(t *testing.T) {
	tr, err := trace.New(trace.Options{Settings: trace.Default()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close(context.Background())
	conn, _ := start(t, newFakeEngine(testModels()...), func(o *Options) { o.Trace = tr })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	model := testModels()[0].name
	const begin = "log_frequency=0 trace_count=-1 trace_file= trace_level=OFF trace_mode=triton trace_rate=1000"
	for _, tt := range []struct {
		name, model string
		set         map[string]string // values joined by +; "": none
		want        string
		code        codes.Code
	}{
		{name: "B067 read", want: begin},
		{name: "B067 read of a model", model: model, want: begin},
		{name: "B067 change of a model", model: model, set: map[string]string{"trace_rate": "3", "trace_count": "4"},
			want: "log_frequency=0 trace_count=4 trace_file= trace_level=OFF trace_mode=triton trace_rate=3"},
		{name: "B067 an empty list clears", model: model, set: map[string]string{"trace_rate": ""},
			want: "log_frequency=0 trace_count=4 trace_file= trace_level=OFF trace_mode=triton trace_rate=1000"},
		{name: "B067 the server's are as they were", want: begin},
		{name: "unknown model", model: "nope", code: codes.InvalidArgument, want: "Request for unknown model : nope"},
		{name: "R7 unknown level", set: map[string]string{"trace_level": "BAD"}, code: codes.InvalidArgument,
			want: "trace_level: 'BAD' is none of OFF, TIMESTAMPS, TENSORS"},
		{name: "R7 DV45 unknown key", set: map[string]string{"nosuch": "1"}, code: codes.InvalidArgument,
			want: "unknown trace setting 'nosuch'; known are trace_level, trace_rate, trace_count, log_frequency"},
		{name: "A20 trace_file", set: map[string]string{"trace_file": "/etc/x"}, code: codes.Unimplemented,
			want: "trace file location can not be updated through network protocol"},
		{name: "no file", set: map[string]string{"trace_level": "TIMESTAMPS"}, code: codes.InvalidArgument,
			want: "Attempting to set invalid trace setting :trace file name is not given"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &inferencepb.TraceSettingRequest{ModelName: tt.model,
				Settings: map[string]*inferencepb.TraceSettingRequest_SettingValue{}}
			for k, v := range tt.set {
				in.Settings[k] = &inferencepb.TraceSettingRequest_SettingValue{}
				if v != "" {
					in.Settings[k].Value = strings.Split(v, "+")
				}
			}
			out, err := c.TraceSetting(t.Context(), in)
			var got []string
			for _, k := range slices.Sorted(maps.Keys(out.GetSettings())) {
				got = append(got, k+"="+strings.Join(out.GetSettings()[k].GetValue(), "+"))
			}
			text := strings.Join(got, " ")
			if err != nil {
				text = grpcstatus.Convert(err).Message()
			}
			if grpcstatus.Code(err) != tt.code || text != tt.want {
				t.Errorf("%v: %s; want %v: %s", grpcstatus.Code(err), text, tt.code, tt.want)
			}
		})
	}
}

func TestLogSettings(t *testing.T) {
	log := &fakeLog{v: engine.LogSettings{File: "f", Info: true, Warning: true, Error: true, Format: "default"}}
	conn, _ := start(t, newFakeEngine(), func(o *Options) { o.LogControl = log })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	type value = inferencepb.LogSettingsRequest_SettingValue
	flag := func(v bool) *value {
		return &value{ParameterChoice: &inferencepb.LogSettingsRequest_SettingValue_BoolParam{BoolParam: v}}
	}
	number := func(v uint32) *value {
		return &value{ParameterChoice: &inferencepb.LogSettingsRequest_SettingValue_Uint32Param{Uint32Param: v}}
	}
	text := func(v string) *value {
		return &value{ParameterChoice: &inferencepb.LogSettingsRequest_SettingValue_StringParam{StringParam: v}}
	}
	type set = map[string]*value
	for _, tt := range []struct {
		name string
		set  set
		code codes.Code
		text string
		info bool
	}{
		{name: "B067 read", info: true},
		{name: "DV49 a wrong one changes nothing", set: set{"log_info": flag(false), "log_format": text("BAD")},
			code: codes.InvalidArgument,
			text: `invalid argument for log_format, got: "BAD"`, info: true},
		{name: "wrong type of a flag", set: set{"log_info": number(1)}, code: codes.InvalidArgument,
			text: "expect boolean for 'log_info'", info: true},
		{name: "wrong type of the level", set: set{"log_verbose_level": flag(true)}, code: codes.InvalidArgument,
			text: "expect int32 for 'log_verbose_level'", info: true},
		{name: "wrong type of the format", set: set{"log_format": flag(true)}, code: codes.InvalidArgument,
			text: "expect string for 'log_format'", info: true},
		{name: "A20 log_file", set: set{"log_file": text("/etc/x")}, code: codes.Unimplemented,
			text: "log file location can not be updated through network protocol", info: true},
		{name: "R7 DV46 unknown key", set: set{"nosuch": flag(true)}, code: codes.InvalidArgument,
			text: "unknown log setting 'nosuch'; known are log_info, log_warning, log_error, log_verbose_level, " +
				"log_format", info: true},
		{name: "B067 change", set: set{"log_info": flag(false), "log_verbose_level": number(0),
			"log_format": text("default")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.LogSettings(t.Context(), &inferencepb.LogSettingsRequest{Settings: tt.set})
			if grpcstatus.Code(err) != tt.code || err != nil && grpcstatus.Convert(err).Message() != tt.text {
				t.Errorf("%v, want %v: %s", err, tt.code, tt.text)
			}
			if log.v.Info != tt.info {
				t.Errorf("log_info is %v after it", log.v.Info)
			}
			if s := out.GetSettings(); err == nil &&
				(len(s) != 6 || s["log_info"].GetBoolParam() != tt.info || !s["log_error"].GetBoolParam() ||
					s["log_file"].GetStringParam() != "f" || s["log_format"].GetStringParam() != "default" ||
					s["log_verbose_level"].GetUint32Param() != 0) {
				t.Errorf("settings %v", s)
			}
		})
	}
}

func TestTracedCalls_E039(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	tr, err := trace.New(trace.Options{Settings: trace.Settings{Level: trace.Timestamps, Rate: 1, Count: -1, File: file,
		Mode: trace.ModeTriton}})
	if err != nil {
		t.Fatal(err)
	}
	conn, s := start(t, realEngine(t), func(o *Options) { o.Trace = tr })
	c := inferencepb.NewGRPCInferenceServiceClient(conn)
	in := &inferencepb.ModelInferRequest{ModelName: "add_sub", Id: "7",
		Inputs:           []*inferencepb.ModelInferRequest_InferInputTensor{addSub("INPUT0"), addSub("INPUT1")},
		RawInputContents: [][]byte{make([]byte, 64), make([]byte, 64)}}
	if _, err := c.ModelInfer(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	stream, err := c.ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(in); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil { // every call has ended
		t.Fatal(err)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		RequestID  string `json:"request_id"`
		Timestamps []struct{ Name string }
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 4 {
		t.Fatalf("%d elements, %v in %s; want those of two traces", len(all), err, text)
	}
	for i := 0; i < 4; i += 2 {
		got := ""
		for _, m := range all[i+1].Timestamps {
			got += m.Name + " "
		}
		if want := "GRPC_WAITREAD_START GRPC_WAITREAD_END REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END " +
			"COMPUTE_OUTPUT_START " +
			"COMPUTE_END INFER_RESPONSE_COMPLETE REQUEST_END GRPC_SEND_START GRPC_SEND_END "; got != want ||
			all[i].RequestID != "7" {
			t.Errorf("moments of %q: %s, want %s", all[i].RequestID, got, want)
		}
	}
}
