package app

import (
	"bytes"
	"strings"
	"testing"
)

// The command works on any machine, with or without GPUs.
func TestDevicesCommand_C073(t *testing.T) {
	t.Setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID") // as it was, afterwards
	var out, errs bytes.Buffer
	if code := Main([]string{"nereid", "devices", "--data-dir=" + t.TempDir()}, &out, &errs); code != 0 ||
		!strings.Contains(out.String(), "CPU: ") {
		t.Errorf("status %d: %s%s", code, &out, &errs)
	}
	out.Reset()
	if code := Main([]string{"nereid", "devices", "--help"}, &out, &errs); code != 0 ||
		!strings.HasPrefix(out.String(), "Shows the CPUs and GPUs that models may use") {
		t.Errorf("the help is status %d, %.120q; want what the command does first", code, out.String())
	}
	if code := Main([]string{"nereid", "devices", "--nosuch"}, &out, &errs); code != 1 {
		t.Errorf("status %d with a wrong option", code)
	}
}
