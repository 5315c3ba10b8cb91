package lifecycle

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nereid/engine/backend"
)

// A load that hangs counts for the loads at once for its first minute only, and fails at its limit.
func TestLoadThatHangs_D12_D13(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.LoadThreads, o.LoadTimeout = 1, time.Hour })
		for _, name := range []string{"hangs", "good"} {
			r.write(name+"/config.pbtxt", policy("all {}"))
			r.write(name+"/1/file", "")
		}
		r.b.load = func(ctx context.Context, s backend.Spec) error {
			if s.ModelName == "hangs" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		begun, failed := time.Now(), make(chan error, 1)
		go func() { failed <- r.Load(t.Context(), "hangs", nil) }()
		synctest.Wait()
		if err := r.Load(t.Context(), "good", nil); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begun); waited != placeTime {
			t.Errorf("the other model waited for %v, want %v", waited, placeTime)
		}
		err := <-failed
		if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "took longer than 3600 s") ||
			took != time.Hour {
			t.Errorf("after %v: %v, want that the load took longer than its limit", took, err)
		}
		r.Close(t.Context())
	})
}
