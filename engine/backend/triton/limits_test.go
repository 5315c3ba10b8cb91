package triton

import (
	"strings"
	"testing"
	"time"

	"nereid/engine/inferencepb"
)

// The limits of a model's processes are those of its parameters, else those of its backend's settings.
func TestLimitsOfABackendsProcesses(t *testing.T) {
	settings := map[string]string{"execute-timeout-seconds": "5", "memory-limit-byte-size": "1000", "own": "x"}
	cfg := &inferencepb.ModelConfig{Backend: "mine", Parameters: map[string]*inferencepb.ModelParameter{
		"MEMORY_LIMIT_BYTE_SIZE": {StringValue: "2000"}}}
	l, err := limitsOf(settings, cfg)
	if err != nil || l.Execute != 5*time.Second || l.Memory != 2000 {
		t.Errorf("the limits are %+v, %v; want 5 s and 2000 bytes", l, err)
	}
	settings["execute-timeout-seconds"] = "soon"
	if _, err := limitsOf(settings, cfg); err == nil || !strings.Contains(err.Error(), "mine,execute-timeout-seconds") {
		t.Errorf("a limit that is no number: %v", err)
	}
}
