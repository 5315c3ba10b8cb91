package app

import (
	"testing"

	"nereid/app/options"
)

func TestTheHistoryHasTheLimitsOfTheOptions(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		bytes int64
		keep  int
	}{
		{nil, 1 << 30, 1_000_000},
		{[]string{"--edge"}, 64 << 20, 10_000},
		{[]string{"--history-max-bytes=2MiB", "--keep-requests=0"}, 2 << 20, -1},
	} {
		c, err := options.Load(false, tt.args, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		if o := storeOptions(c, t.TempDir()); o.MaxBytes != tt.bytes || o.KeepRequests != tt.keep {
			t.Errorf("%v: at most %d bytes and %d requests, want %d and %d", tt.args, o.MaxBytes, o.KeepRequests,
				tt.bytes, tt.keep)
		}
	}
}
