package device

import "testing"

func TestHostReportsTheCoresAndTheMemory(t *testing.T) {
	u := Host()
	if u.Total <= 0 || u.Busy <= 0 || u.Busy > u.Total {
		t.Errorf("cores: busy %v of %v", u.Busy, u.Total)
	}
	if u.Memory <= 0 || u.Free <= 0 || u.Free > u.Memory {
		t.Errorf("memory: %d free of %d", u.Free, u.Memory)
	}
}
