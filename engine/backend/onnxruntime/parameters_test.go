package onnxruntime

import (
	"testing"

	"nereid/engine/inferencepb"
)

func TestValidateParameters(t *testing.T) {
	for _, tt := range []struct {
		name, key, value string
		refused, unknown bool
	}{
		{"threads", "intra_op_thread_count", "4", false, false},
		{"threads that are none", "intra_op_thread_count", "many", true, false},
		{"negative threads", "inter_op_thread_count", "-1", true, false},
		{"mode", "execution_mode", "1", false, false},
		{"a mode that there is not", "execution_mode", "2", true, false},
		{"switch", "enable_mem_arena", "false", false, false},
		{"a switch that is none", "enable_mem_pattern", "perhaps", true, false},
		{"isolation", "isolation", "process", false, false},
		{"an isolation that there is not", "isolation", "docker", true, false},
		{"an entry of the session", "session.disable_prepacking", "1", false, false},
		{"read elsewhere", "gpu_mem_limit", "1", false, false},
		{"limit of a process", "EXECUTE_TIMEOUT_SECONDS", "5", false, false},
		{"a limit that is none", "ABANDONED_TIMEOUT_SECONDS", "soon", true, false},
		{"unknown", "intra_op_threads", "1", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parameters := map[string]*inferencepb.ModelParameter{tt.key: {StringValue: tt.value}}
			cfg := &inferencepb.ModelConfig{Parameters: parameters}
			all := (&Backend{}).ValidateParameters(cfg)
			if tt.refused || tt.unknown {
				if len(all) != 1 || all[0].Name != tt.key || all[0].Refused != tt.refused || all[0].Text == "" ||
					tt.unknown != (len(all[0].Known) > 0) {
					t.Errorf("%s %q: %+v", tt.key, tt.value, all)
				}
			} else if len(all) != 0 {
				t.Errorf("%s %q: %+v, want nothing", tt.key, tt.value, all)
			}
		})
	}
}
