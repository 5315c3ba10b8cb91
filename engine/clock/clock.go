// Package clock has the sleep that ends with its context.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d; false: ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
